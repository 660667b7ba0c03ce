"""The four files of a run: results.jsonl, summary.txt, log, logs.tar.gz.

A second run into the same folder adds to the first three, and keeps the logs of the first in the archive.
"""
import contextlib
import io
import json
import pathlib
import shutil
import sys
import tarfile

MOST_OF_A_LOG = 2 << 20  # bytes kept of the end of a program's output


class Outputs:
    """A file that cannot be written is reported once. The run continues."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.failures = []
        self._screen = sys.stdout
        self._summaries = ""
        with contextlib.suppress(OSError):
            self._summaries = (self.folder / "summary.txt").read_text(errors="replace")
        self._append("log", "")
        if self.failures:
            raise OSError(self.failures[0])

    def say(self, text):
        """Prints text, and adds it to the log."""
        self._append("log", text + "\n")
        if self._screen:
            try:
                print(text, file=self._screen, flush=True)
            except OSError:  # nobody reads the screen any more
                self._screen = None

    def figure(self, row):
        self._append("results.jsonl", json.dumps(row) + "\n")

    def summary(self, text):
        """Writes the summary of this run behind those of earlier runs."""
        self._guard("summary.txt", lambda path: path.write_text(self._summaries + text))

    def pack_logs(self, logs, name):
        """Writes logs.tar.gz: the folder `logs` under `name`, and what an earlier archive holds."""
        def write(path):
            new = path.with_suffix(".part")
            try:
                with tarfile.open(new, "w:gz") as archive:
                    if path.exists():
                        copy_members(path, archive)
                    for log in sorted(logs.iterdir()):
                        cut(log)
                        archive.add(log, f"{name}/{log.name}")
                new.replace(path)
            finally:
                new.unlink(missing_ok=True)

        self._guard("logs.tar.gz", write)

    def _append(self, name, text):
        def write(path):
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)

        self._guard(name, write)

    def _guard(self, name, write):
        path = self.folder / name
        if any(failure.startswith(f"{path} ") for failure in self.failures):
            return
        try:
            write(path)
        except OSError as error:
            self.failures.append(f"{path} cannot be written: {error.strerror or error}")
            print(self.failures[-1], file=sys.stderr)


def copy_members(path, archive):
    """Adds the files of an archive to another one. A damaged archive is kept beside the new one."""
    try:
        with tarfile.open(path) as earlier:
            for member in earlier:
                archive.addfile(member, earlier.extractfile(member) if member.isfile() else None)
    except (tarfile.TarError, EOFError, OSError) as error:
        kept = path.with_suffix(".damaged")
        shutil.copy(path, kept)
        message = f"{path} of an earlier run is damaged ({error}); it is now {kept.name}\n".encode()
        note = tarfile.TarInfo("damaged.txt")
        note.size = len(message)
        archive.addfile(note, io.BytesIO(message))


def cut(log):
    """Keeps the end of a large log."""
    size = log.stat().st_size
    if size <= MOST_OF_A_LOG:
        return
    with open(log, "rb") as file:
        file.seek(size - MOST_OF_A_LOG)
        end = file.read()
    log.write_bytes(f"... {size - len(end)} bytes are left out\n".encode() + end)
