"""Where the jar is found, and what is said when there is none."""

import pytest

from mooring.errors import MooringError
from mooring.jar import jar_path


def touched(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def package(tmp_path):
    return tmp_path / "python/mooring"


def test_an_installed_package_has_its_own(package, tmp_path):
    touched(tmp_path / "scala-shim/build_jar.py")
    touched(tmp_path / "build/mooring.jar")
    own = touched(package / "jars/mooring.jar")
    assert jar_path(package) == own


def test_a_checkout_has_the_one_it_built(package, tmp_path):
    touched(tmp_path / "scala-shim/build_jar.py")
    built = touched(tmp_path / "build/mooring.jar")
    assert jar_path(package) == built


def test_a_checkout_without_one_says_how_to_build_it(package, tmp_path):
    touched(tmp_path / "scala-shim/build_jar.py")
    with pytest.raises(MooringError, match="make jar"):
        jar_path(package)


def test_an_installed_package_without_one_says_so(package):
    with pytest.raises(MooringError, match="installed without its jar"):
        jar_path(package)
