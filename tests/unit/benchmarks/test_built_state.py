"""Checkpoints for the sides of a comparison."""

from benchmarks.built_state import copy_checkpoint


def test_a_copied_checkpoint_has_the_files_without_hadoops_hidden_ones(tmp_path):
    source = tmp_path / "from"
    (source / "state").mkdir(parents=True)
    (source / "state" / "1_u.zip").write_text("snapshot")
    (source / "state" / ".1_u.zip.crc").write_text("hidden")
    copy_checkpoint(source, tmp_path / "bare", hidden_files=False)
    copy_checkpoint(source, tmp_path / "whole", hidden_files=True)
    assert [file.name for file in (tmp_path / "bare/state").iterdir()] == ["1_u.zip"]
    assert len(list((tmp_path / "whole/state").iterdir())) == 2
