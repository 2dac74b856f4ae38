/* Every other symbol of the library: it is there, and says that it is not supported, or
 * not permitted where it would change something.
 *
 * The caller puts the arguments away, so that one shape fits all of them.
 */
#include "standin.h"

static result stub(int symbol, result answer) {
    struct call call;
    result code = call_enter(&call, symbol, NULL, SYSTEM);
    return code != SUCCESS ? code : call_leave(&call, answer);
}

#define CALL(NAME, ABSENT_THROUGH)
#define STUB(NAME, ABSENT_THROUGH, ANSWER) \
    EXPORT result NAME(void) { return stub(S_##NAME, ANSWER); }
#include "symbols.def"
