"""Keys as file names, and back."""

import string

from hypothesis import given
from hypothesis import strategies as st

from mooring.metadata.filename import MAX_NAME_BYTES, file_name, is_record_name, key_of

keys = st.text(st.characters(exclude_categories=("Cs",)), max_size=80) | st.text("aA=.-/k", max_size=200)
SAFE = set(string.ascii_lowercase + string.digits + "-_.=")


@given(keys)
def test_a_name_is_safe_on_every_file_system(key):
    name = file_name(key)
    assert set(name) <= SAFE
    assert len(name) <= MAX_NAME_BYTES
    assert name[0] in "kh" and name.endswith(".v1")
    assert is_record_name(name)


@given(keys)
def test_a_name_spells_its_key_unless_it_is_too_long(key):
    assert key_of(file_name(key)) == (key if file_name(key).startswith("k-") else None)


@given(st.lists(keys, unique=True, max_size=20))
def test_different_keys_have_different_names(some_keys):
    assert len({file_name(key) for key in some_keys}) == len(some_keys)


@given(st.text("kh-=v1.af0", max_size=20))
def test_a_name_that_no_key_has_is_not_ours(name):
    assert is_record_name(name) == (key_of(name) is not None and file_name(key_of(name)) == name)


def test_names_can_be_read_by_people():
    assert file_name("job-model") == "k-job-model.v1"
    assert file_name("locality/Partition 3") == "k-locality=2f=50artition=203.v1"
    assert file_name("") == "k-.v1"
