#!/bin/sh
# A newer kernel of Debian's with the queue DualPI2, for the virtual machines; in a folder, nothing is installed.
#     sh newer-kernel.sh [FOLDER]                 as root on Debian, amd64; 0.4 GB to download, 0.5 GB kept
# It prints the kernel's path, which the machines take from WHYDROP_LAB_KERNEL.
#
# Debian builds its kernels without DualPI2 (7.3.4: "CONFIG_NET_SCH_DUALPI2 is not set"), so its module is compiled
# from Debian's source of the same kernel, by Debian's compiler of that release, in the folder as root directory. The
# kernel is from trixie-backports; `tc`, which must know the queue, from sid.
set -eu
folder=$(realpath -m "${1:-$(dirname "$0")/../../build/newer-kernel}")
refuse() { echo "newer-kernel.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || refuse "expected root: it changes the root directory to compile"
case $folder/ in
/var/* | /run/* | /dev/*) refuse "$folder: expected a folder that the machines see, not in /var, /run or /dev" ;;
*[!A-Za-z0-9_./+-]*) refuse "$folder: expected letters, digits, '.', '_', '+' and '-' only" ;;
esac
[ ! -e "$folder" ] || refuse "$folder is there already: remove it first, or use it"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || refuse "no sources of Debian: run apt-get update, on Debian"

# What is not complete is removed, so that the next try starts anew.
trap '[ -e "$folder/tc" ] || rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
# Apt with lists and sources of its own, and this machine's other settings (a proxy, say).
apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/sources.list.d" "$apt/preferences.d" "$apt/apt.conf.d"
: >"$apt/status"
for suite in trixie trixie-backports sid; do
    echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
done >"$apt/sources.list"
# From sid only what is asked of it by name, and what that needs.
printf 'Package: *\nPin: release n=sid\nPin-Priority: 50\n' >"$apt/preferences.d/sid"
cat >"$apt/apt.conf" <<END
Dir::State "$apt"; Dir::State::status "$apt/status"; Dir::Cache "$apt"; Dir::Etc "$apt";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Install-Recommends "false"; APT::Sandbox::User "root";
Acquire::Languages "none";
END
apt-get -q -c "$apt/apt.conf" update
release=$(apt-cache -c "$apt/apt.conf" madison linux-image-amd64 | awk '/trixie-backports/ { print $3; exit }')
release=$(apt-cache -c "$apt/apt.conf" show "linux-image-amd64=$release" | sed -n 's/^Depends:.* linux-image-\([0-9][^ ]*\) .*/\1/p')
[ -n "$release" ] || refuse "trixie-backports has no linux-image-amd64 that names its kernel"
source=linux-source-$(echo "$release" | cut -d. -f1,2)
apt-get -q -y -c "$apt/apt.conf" --download-only install \
    "linux-binary-$release" "linux-modules-$release" "linux-headers-$release" "$source" \
    iproute2/sid make dash coreutils sed grep mawk findutils

mkdir -p "$folder/proc" "$folder/dev" "$folder/tmp" "$folder/dualpi2"
for name in bin sbin lib lib64; do mkdir -p "$folder/usr/$name"; ln -s usr/$name "$folder/$name"; done
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
[ -e "$folder/usr/bin/sh" ] || ln -s dash "$folder/usr/bin/sh"
[ -e "$folder/usr/bin/awk" ] || ln -s mawk "$folder/usr/bin/awk"
modules=$folder/usr/lib/modules/$release
[ -e "$modules/vmlinuz" ] || refuse "expected $modules/vmlinuz in Debian's packages"

if ! grep -q '^CONFIG_NET_SCH_DUALPI2=' "$modules/config"; then
    tar -xOf "$folder/usr/src/$source.tar.xz" "$source/net/sched/sch_dualpi2.c" >"$folder/dualpi2/sch_dualpi2.c"
    echo 'obj-m := sch_dualpi2.o' >"$folder/dualpi2/Makefile"
    unshare --mount sh -ec 'mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"
        exec chroot "$1" make -C "/lib/modules/$2/build" M=/dualpi2' sh "$folder" "$release"
    mkdir -p "$modules/extra"
    cp "$folder/dualpi2/sch_dualpi2.ko" "$modules/extra/"
fi
depmod -b "$folder" "$release"
# This tc with its own libraries, from wherever it is called.
libraries=$folder/usr/lib/x86_64-linux-gnu
tc="$libraries/ld-linux-x86-64.so.2 --library-path $libraries $folder/usr/sbin/tc"
$tc qdisc add dualpi2 help 2>&1 | grep -q step_thresh || refuse "$($tc -V) does not know dualpi2"
printf '#!/bin/sh\nexec %s "$@"\n' "$tc" >"$folder/tc"
chmod +x "$folder/tc"
rm -r "$apt" "$folder/usr/src/$source.tar.xz" "$folder/dualpi2"
echo "$modules/vmlinuz"
