"""Packs the programs for another machine, and unpacks them there."""
import lzma
import os
import pathlib
import subprocess
import tarfile
import tempfile

LARGEST = 40_000_000  # bytes of a packed bundle and the sources, which travel together


class BundleError(Exception):
    pass


def commit_of(source):
    """Returns the commit of a source tree, with "-dirty" if files differ; "unknown" without git."""
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return described.stdout.strip() or "unknown"


def size_of_sources(source):
    """Returns the bytes of the files that git tracks; 0 without git."""
    try:
        listed = subprocess.run(["git", "-C", str(source), "ls-files", "-z"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    paths = [os.path.join(os.fsencode(source), path) for path in listed.stdout.split(b"\0") if path]
    return sum(os.lstat(path).st_size for path in paths if os.path.lexists(path))


def pack(build, source, file):
    """Installs a build and packs it as a tar file, compressed by xz. Returns a line that tells the sizes."""
    file = pathlib.Path(file)
    with tempfile.TemporaryDirectory(prefix="weft-pack-") as folder:
        root = pathlib.Path(folder, "bundle")
        command = ["cmake", "--install", str(build), "--prefix", str(root)]
        try:
            installed = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BundleError(f"{command[0]} cannot be started: {error.strerror}") from error
        if installed.returncode != 0:
            raise BundleError(f"`{' '.join(command)}` failed. Build everything first (cmake --build {build}).\n"
                              + "\n".join((installed.stdout + installed.stderr).strip().splitlines()[-6:]))
        (root / "COMMIT").write_text(commit_of(source) + "\n")
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + ".part")
        try:
            with tarfile.open(part, "w:xz", preset=3) as archive:
                archive.add(root, "bundle")
            packed, sources = part.stat().st_size, size_of_sources(source)
            unpacked = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
            sizes = (f"{packed / 1e6:.1f} MB packed ({unpacked / 2**20:.0f} MiB unpacked), and {sources / 1e6:.1f} MB "
                     "of sources")
            if packed + sources > LARGEST:
                raise BundleError(f"{file} was not written: {sizes} exceed {LARGEST / 1e6:.0f} MB together. "
                                  "Bundle fewer programs or libraries (weft_bundle in the CMakeLists.txt files)")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    return f"{file}: {sizes}"


def unpack(file, folder):
    """Unpacks a bundle into `folder`. Returns the folder of the bundle."""
    try:
        with tarfile.open(file) as archive:
            # Python before 3.10.12 has no filters.
            options = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            archive.extractall(folder, **options)
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError) as error:
        raise BundleError(f"{file} cannot be unpacked: {error}. Pack it again with --pack") from error
    roots = [path.parent.parent for path in pathlib.Path(folder).glob("*/bin/weft")]
    if len(roots) != 1:
        raise BundleError(f"{file} has no program bin/weft. Pack it with --pack")
    return roots[0]
