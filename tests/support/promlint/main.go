// Reads a page of metrics and prints what `promtool check metrics` would complain about.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func main() {
	problems, err := promlint.New(os.Stdin).Lint()
	if err != nil {
		fmt.Fprintln(os.Stderr, "not a page of metrics:", err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Printf("%s %s\n", problem.Metric, problem.Text)
	}
}
