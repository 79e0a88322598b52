#!/bin/sh
# Sets the length of an interface's own queue, or restores it:
#   queue.sh set DEVICE txqueuelen PACKETS | bql BYTES | fq PACKETS-OF-A-FLOW
#   queue.sh restore DEVICE
set -eu
what=$1 device=$2
saved=${TMPDIR:-/tmp}/whydrop-queue-$(id -u)-$device
limits=/sys/class/net/$device/queues

save() {
    [ -e "$saved" ] && return
    {
        cat "/sys/class/net/$device/tx_queue_len"
        for limit in "$limits"/tx-*/byte_queue_limits/limit_max; do
            if [ -e "$limit" ]; then echo "$limit $(cat "$limit")"; fi
        done
    } >"$saved"
}

restore() {
    [ -e "$saved" ] || return 0
    tc qdisc del dev "$device" root 2>/dev/null || true
    {
        read -r length
        ip link set dev "$device" txqueuelen "$length"
        while read -r limit value; do echo "$value" >"$limit"; done
    } <"$saved"
    rm "$saved"
}

set_bql() {
    found=
    for limit in "$limits"/tx-*/byte_queue_limits/limit_max; do
        if [ -e "$limit" ]; then
            echo "$1" >"$limit"
            found=1
        fi
    done
    [ "$found" ] || { echo "queue.sh: $device has no byte queue limits: its driver lacks them" >&2; exit 1; }
}

case $what in
restore) restore ;;
set)
    save
    case $3 in
    # A queue takes the interface's length when it is made.
    txqueuelen) ip link set dev "$device" txqueuelen "$4" && tc qdisc replace dev "$device" root pfifo limit "$4" ;;
    bql) set_bql "$4" ;;
    fq) tc qdisc replace dev "$device" root fq flow_limit "$4" ;;
    *) echo "queue.sh: expected txqueuelen, bql or fq, not $3" >&2; exit 1 ;;
    esac
    ;;
*) echo "queue.sh: expected set or restore, not $what" >&2; exit 1 ;;
esac
