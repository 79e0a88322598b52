# Runs a responder on a far host, for `whydrop deploy`, in any POSIX shell. Its input comes from whydrop, in this order:
#
#   SIZE PORT SECRET       a line: bytes of the program, the port of the responder, its secret
#   the program            SIZE bytes, after this script has written "whydrop-deploy: send"
#   an empty line          once the responder runs
#   the end of the input   stops the responder, however whydrop or the connection ended
#
# The program's file is removed as soon as the program runs: from then on nothing is left even if this shell is killed.
set -u
umask 077
folder='' responder='' watcher=''
trap 'rm -rf "$folder"; kill $responder $watcher 2>/dev/null' EXIT
trap 'exit 1' HUP INT TERM

say() { echo "whydrop-deploy: $*"; }

# Makes a new folder in a folder, with an empty program; fails where no programs can be started (mount option noexec).
made_in() {
    folder=$(mktemp -d "$1/whydrop-responder.XXXXXX" 2>/dev/null) || { folder='' && return 1; }
    program=$folder/whydrop-responder
    printf '#!/bin/sh\n' >"$program" && chmod 700 "$program" && "$program" 2>/dev/null && return
    rm -rf "$folder" && folder=''
    return 1
}

say "system $(uname -s) $(uname -m)"
read -r size port secret || exit
for parent in "${TMPDIR:-/tmp}" "${XDG_RUNTIME_DIR:-/tmp}" "${HOME:-/tmp}" /var/tmp; do
    made_in "$parent" && break
done
[ -n "$folder" ] || { say "failed no folder lets a program be written and started (tried TMPDIR, XDG_RUNTIME_DIR, HOME and /var/tmp)" && exit 1; }
say send
head -c "$size" >"$program"
arrived=$(wc -c <"$program")
[ "$arrived" -eq "$size" ] || { say "failed $parent took $arrived of $size bytes" && exit 1; }

exec 3<&0
WHYDROP_SECRET=$secret "$program" --port "$port" </dev/null 3<&- 2>&1 &
responder=$!
{ read -r _ && rm -rf "$folder" && cat >/dev/null; kill "$responder"; } <&3 >/dev/null 2>&1 3<&- &
watcher=$!
exec 3<&-
wait "$responder"
status=$? responder=''
exit "$status"
