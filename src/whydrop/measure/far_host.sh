# Runs a responder on a far host, for `whydrop deploy`, in any POSIX shell. Its input comes from whydrop, in this order:
#
#   SIZE PORT SECRET       a line: bytes of the program, the port of the responder, its secret
#   the program            SIZE bytes, after this script has written "whydrop-deploy: send"
#   an empty line          once the responder runs
#   the end of the input   stops the responder, however whydrop or the connection ended
#
# The program's file is removed as soon as the program runs: from then on nothing is left even if this shell is killed.
# A folder of a shell that was killed while it copied is removed by the next one.
set -u
umask 077
folder='' responder='' watcher='' refusals=''
trap 'rm -rf "$folder"; kill $responder $watcher 2>/dev/null' EXIT
trap 'exit 1' HUP INT TERM

say() { echo "whydrop-deploy: $*"; }

# Removes this user's folders of shells that no longer run.
clear_of_old() {
    for old in "$1"/whydrop-responder.*.??????; do
        shell=${old#"$1"/whydrop-responder.}
        shell=${shell%.*}
        [ -d "$old" ] && [ ! -L "$old" ] && [ -O "$old" ] && ! kill -0 "$shell" 2>/dev/null && rm -rf "$old"
    done
}

refuse() {
    refusals="$refusals${refusals:+, }$*"
    rm -rf "$folder"
    folder=''
    return 1
}

# Makes a new folder in a folder, and fills a file to the program's size there; notes why it cannot.
made_in() {
    clear_of_old "$1"
    folder=$(mktemp -d "$1/whydrop-responder.$$.XXXXXX" 2>/dev/null) || { refuse "$1 is not writable" || return; }
    program=$folder/whydrop-responder
    { printf '#!/bin/sh\n' >"$program" && chmod 700 "$program"; } 2>/dev/null || { refuse "$1 is full" || return; }
    "$program" 2>/dev/null || { refuse "$1 starts no programs (noexec)" || return; }
    head -c "$size" /dev/zero >"$program" 2>/dev/null
    arrived=$(wc -c <"$program")
    [ "$arrived" -eq "$size" ] || refuse "$1 took $arrived of $size bytes"
}

say "system $(uname -s) $(uname -m)"
read -r size port secret || exit
tried=:
for parent in "${TMPDIR:-/tmp}" "${XDG_RUNTIME_DIR:-/tmp}" "${HOME:-/tmp}" /var/tmp; do
    case $tried in *":$parent:"*) continue ;; esac
    tried=$tried$parent:
    made_in "$parent" && break
done
[ -n "$folder" ] || { say "failed $refusals. One of them needs $size bytes of space, and must start programs" && exit 1; }
say send
head -c "$size" >"$program"
arrived=$(wc -c <"$program")
[ "$arrived" -eq "$size" ] || { say "failed $parent took $arrived of $size bytes" && exit 1; }

exec 3<&0
# The end of either, also by SIGKILL, ends the other.
trap 'kill $responder $watcher 2>/dev/null' CHLD
WHYDROP_SECRET=$secret "$program" --port "$port" </dev/null 3<&- 2>&1 &
responder=$!
{ read -r _ && rm -rf "$folder" && cat >/dev/null; kill "$responder"; } <&3 >/dev/null 2>&1 3<&- &
watcher=$!
exec 3<&-
wait "$responder"
status=$?
# That one may have been interrupted by the trap; 127: it was not.
wait "$responder" 2>/dev/null
again=$? responder=''
[ "$again" -eq 127 ] || status=$again
exit "$status"
