"""A Debian package of the wheel, with its Python packages as ``uv.lock`` has them, manual pages, completions and units.

    tools/debian_package.py deb12 --wheel dist/whydrop-*.whl --manual build/manual --into dist

The package has an environment of its own, /usr/lib/whydrop, laid out as ``python3 -m venv`` does. Packages of compiled
code are for one version of Python, and each release of Debian has one: a package is for one release.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import tomllib
from email.utils import formatdate
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGING = ROOT / "packaging"
# The Python of each release.
PYTHON = {"deb12": "3.11", "deb13": "3.13"}
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
# xz takes minutes for such packages.
COMPRESSION = ["-Zzstd", "-z9"]
# The oldest C library of the wheels that are installed, which have this in their names.
C_LIBRARY = "2.28"
MAINTAINER = "whydrop maintainers <maintainers@whydrop.example>"
COMPLETIONS = {
    "bash/whydrop": "bash-completion/completions/whydrop",
    "zsh/_whydrop": "zsh/vendor-completions/_whydrop",
    "fish/whydrop.fish": "fish/vendor_completions.d/whydrop.fish",
}


def project() -> dict[str, str]:
    """The table ``project`` of ``pyproject.toml``."""
    table: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def version(release: str) -> str:
    """The version of the package, which sorts before that for the next release of Debian."""
    return f"{project()['version']}-1~{release}"


def control(release: str, machine: str, installed_bytes: int) -> str:
    """The control file (deb-control(5))."""
    python = PYTHON[release]
    major, minor = python.split(".")
    needed = [f"libc6 (>= {C_LIBRARY})", "libgcc-s1", "libstdc++6", "zlib1g"]
    needed += [f"python3 (>= {python})", f"python3 (<< {major}.{int(minor) + 1})"]
    return f"""\
Package: whydrop
Version: {version(release)}
Section: net
Priority: optional
Architecture: {ARCHITECTURE[machine]}
Maintainer: {MAINTAINER}
Installed-Size: {-(-installed_bytes // 1024)}
Depends: {", ".join(needed)}
Recommends: iproute2
Suggests: tcpdump
Description: {project()["description"][0].lower() + project()["description"][1:]}
 whydrop reads packet captures, runs tests of a path, and names the cause of
 lost and delayed packets with its evidence: policers, shapers, full queues,
 queue management, random loss, limits of the sender or the receiver.
 .
 The package brings its Python packages in an environment of its own.
"""


def changelog(release: str, epoch: int) -> str:
    """The changelog of the package, which refers to that of the program (deb-changelog(5))."""
    return (
        f"whydrop ({version(release)}) unstable; urgency=medium\n\n"
        f"  * Version {project()['version']}: see changelog.gz.\n\n"
        f" -- {MAINTAINER}  {formatdate(epoch)}\n"
    )


def install_python_packages(wheel: Path, environment: Path, release: str, machine: str) -> None:
    """Install the locked packages of the base, then the wheel, for the Python of the release."""
    folder = environment / "lib" / f"python{PYTHON[release]}" / "site-packages"
    locked = ["uv", "export", "--quiet", "--locked", "--no-dev", "--no-emit-project"]
    requirements = environment / "requirements.txt"
    requirements.parent.mkdir(parents=True)
    subprocess.run([*locked, "--output-file", str(requirements)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    target: list[str | Path] = ["--target", folder, "--python-version", PYTHON[release]]
    target += ["--python-platform", f"{machine}-manylinux_{C_LIBRARY.replace('.', '_')}"]
    install = ["uv", "pip", "install", "--quiet", "--link-mode", "copy", "--only-binary", ":all:", *target]
    subprocess.run([*install, "--require-hashes", "--requirements", requirements], cwd=ROOT, check=True)
    subprocess.run([*install, "--no-deps", wheel], cwd=ROOT, check=True)
    requirements.unlink()
    # Programs that other packages bring, and uv's lock.
    shutil.rmtree(folder / "bin", ignore_errors=True)
    (folder / ".lock").unlink(missing_ok=True)


def write_environment(environment: Path, release: str) -> None:
    """Make the folder of packages a virtual environment, with the program in it."""
    programs = environment / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to("../../../bin/python3")
    shutil.copyfile(PACKAGING / "debian" / "whydrop", programs / "whydrop")
    settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON[release]}\n"
    (environment / "pyvenv.cfg").write_text(settings)


def compress(text: bytes, place: Path) -> None:
    """Write a compressed document, the same at every build."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(text, 9, mtime=0))


def write_shared(tree: Path, manual: Path, release: str, epoch: int) -> None:
    """Write documents, manual pages, completions and units."""
    documents = tree / "usr/share/doc/whydrop"
    compress((ROOT / "CHANGELOG.md").read_bytes(), documents / "changelog.gz")
    compress(changelog(release, epoch).encode(), documents / "changelog.Debian.gz")
    shutil.copyfile(PACKAGING / "debian" / "copyright", documents / "copyright")
    shutil.copyfile(ROOT / "NOTICE", documents / "NOTICE")
    for page in (manual / "man1").iterdir():
        compress(page.read_bytes(), tree / f"usr/share/man/man1/{page.name}.gz")
    for script, place in COMPLETIONS.items():
        (tree / "usr/share" / place).parent.mkdir(parents=True)
        shutil.copyfile(manual / "completions" / script, tree / "usr/share" / place)
    units = tree / "lib/systemd/system"
    units.mkdir(parents=True)
    for name in ("whydrop-responder.service", "whydrop-collect.service"):
        unit = (PACKAGING / name).read_text("utf-8")
        (units / name).write_text(unit.replace("/usr/local/bin/whydrop", "/usr/bin/whydrop"), "utf-8")


def write_control(tree: Path, release: str, machine: str) -> None:
    """Write the control files: fields, checksums, and what runs at installation and removal."""
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files]
    folder = tree / "DEBIAN"
    folder.mkdir()
    size = sum(path.stat().st_size for path in files)
    (folder / "control").write_text(control(release, machine, size), "utf-8")
    (folder / "md5sums").write_text("".join(sums), "utf-8")
    for name in ("postinst", "prerm"):
        shutil.copyfile(PACKAGING / "debian" / name, folder / name)


def set_modes(tree: Path) -> None:
    """Make everything readable, programs executable, and nothing writable for others than root."""
    programs = [*(tree / "usr/lib/whydrop/bin").iterdir(), tree / "DEBIAN/postinst", tree / "DEBIAN/prerm"]
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)


def build(release: str, wheel: Path, manual: Path, into: Path) -> Path:
    """Build the package for one release; return its path."""
    machine = platform.machine()
    stamp = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True).strip()
    environment = {"SOURCE_DATE_EPOCH": stamp, **os.environ}
    with tempfile.TemporaryDirectory(prefix="whydrop-deb-", dir=ROOT / "build") as folder:
        tree = Path(folder)
        prefix = tree / "usr/lib/whydrop"
        install_python_packages(wheel, prefix, release, machine)
        write_environment(prefix, release)
        (tree / "usr/bin").mkdir()
        (tree / "usr/bin/whydrop").symlink_to("../lib/whydrop/bin/whydrop")
        write_shared(tree, manual, release, int(environment["SOURCE_DATE_EPOCH"]))
        write_control(tree, release, machine)
        set_modes(tree)
        package = into / f"whydrop_{version(release)}_{ARCHITECTURE[machine]}.deb"
        pack = ["dpkg-deb", "--root-owner-group", *COMPRESSION, "--build", str(tree), str(package)]
        subprocess.run(pack, env=environment, check=True, stdout=subprocess.DEVNULL)
    return package


def main() -> None:
    """Build the package, and print its path."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("release", choices=PYTHON)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--manual", type=Path, required=True, help="the folder that tools/manual_pages.py wrote")
    parser.add_argument("--into", type=Path, required=True, help="the folder of the package")
    given = parser.parse_args()
    print(build(given.release, given.wheel.resolve(), given.manual, given.into))


if __name__ == "__main__":
    main()
