"""The house keeps its order: what import-linter cannot see."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wire", "edge_agent", "bridge", "cloud_processor", "ctl")
MODULES = [p for name in PACKAGES for p in sorted((ROOT / name).rglob("*.py"))]
CORES = [p for p in MODULES if "core" in p.parts and p.name != "__init__.py"]


@pytest.mark.parametrize("module", CORES, ids=lambda p: str(p.relative_to(ROOT)))
def test_core_modules_have_a_mirror(module: Path) -> None:
    """Each module of a core has a test file of its name in the same place under tests/unit."""
    mirror = ROOT / "tests" / "unit" / module.parent.relative_to(ROOT)

    assert list(mirror.glob(f"test_*{module.stem}.py"))


def test_modules_tell_their_story() -> None:
    """Every module with code begins with a docstring."""
    silent = [p for p in MODULES if (text := p.read_text()).strip() and not text.startswith('"""')]

    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_have_a_design(package: str) -> None:
    """DESIGN.md stands in each package and ends with its decisions."""
    text = (ROOT / package / "DESIGN.md").read_text()

    assert "## Decisions" in text


def test_nothing_speaks_of_the_workplace() -> None:
    """No file of the project names a path of the machine it was written on."""
    told = [
        p
        for folder in (*PACKAGES, "tests", "deploy")
        for p in (ROOT / folder).rglob("*")
        if p.is_file()
        and p.suffix in {".py", ".md", ".sh", ".toml", ".xml"}
        and "/" + "work/" in p.read_text(errors="replace")
    ]

    assert told == []
