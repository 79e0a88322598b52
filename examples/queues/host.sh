#!/bin/sh
# Sets up one host of the path, or shows its queues. The batch runs it on each host: sh -s -- ARGUMENTS <host.sh
#   host.sh end DEVICE ONE-WAY-MS [ADDRESS,... ONE-WAY-MS,...]  an end host: delays arriving packets; packets from
#                                                           or to these server addresses by their own delays
#   host.sh router DEVICE RATE QUEUE                        a bottleneck: rate and queue of what leaves by DEVICE
#   host.sh show DEVICE                                     the queues of DEVICE with their counters, as JSON
#   host.sh serve ADDRESS BYTES,BYTES,...                   a web server with a page of objects of these sizes
#   host.sh restore DEVICE ...                              removes queues, delays and server; offloads as before
# Exit status 77: this host lacks a kernel module or a program, so this run cannot be made here.
set -eu
PATH=$PATH:/usr/sbin:/sbin
state=/run/whydrop-queues

refuse() { echo "host.sh: $*" >&2; exit 1; }
lacking() { echo "host.sh: $*" >&2; exit 77; }

# Runs tc: skips the run where the kernel or tc lacks what is asked for ($1 names it), and stops it at any other error.
tc_or_skip() {
    what=$1
    shift
    said=$(tc "$@" 2>&1) && return
    said=$(echo "$said" | tr '\n' ' ')
    case $said in
    *"kind is unknown"* | *"Unknown qdisc"* | *"TC classifier not found"* | *"TC action"* | *"No such file or directory"*)
        lacking "this kernel or its tc has no $what: $said"
        ;;
    *) refuse "tc $*: $said" ;;
    esac
}

# The offloads of a device that join packets and that are on, by their names for `ethtool -K`.
joining() {
    ethtool -k "$1" | awk -F: '$2 ~ /^ on/ {
        if ($1 == "tcp-segmentation-offload") print "tso"; if ($1 == "generic-segmentation-offload") print "gso"
        if ($1 == "generic-receive-offload") print "gro"; if ($1 == "large-receive-offload") print "lro" }'
}

# Packets of queues and captures must be those of the wire: offloads join them to up to 64 KiB.
offloads_off() {
    command -v ethtool >/dev/null || lacking "no ethtool"
    names=$(joining "$1")
    [ -n "$names" ] || return 0
    mkdir -p $state
    [ -e "$state/$1" ] || echo "$names" >"$state/$1"
    for name in $names; do ethtool -K "$1" "$name" off || true; done
    names=$(joining "$1" | tr '\n' ' ')
    [ -z "$names" ] || refuse "$1: offloads could not be switched off: $names"
}

# A list with commas without its first item.
rest() {
    case $1 in
    *,*) echo "${1#*,}" ;;
    esac
}

end() {
    device=$1 delay=$2
    shift 2
    offloads_off "$device"
    # Without delays no module is needed.
    [ "$delay" != 0 ] || [ -n "${2:-}" ] || return 0
    # What arrives is delayed, not what leaves: TCP would see a queue of its own host in a delay at its exit.
    if ! ip link show whydrop-delay >/dev/null 2>&1; then
        modprobe -q ifb numifbs=0 || true
        ip link add whydrop-delay type ifb 2>/dev/null || lacking "this kernel has no ifb (module ifb)"
    fi
    ip link set whydrop-delay up
    tc qdisc del dev "$device" clsact 2>/dev/null || true
    tc_or_skip "clsact (module sch_ingress)" qdisc add dev "$device" clsact
    tc_or_skip "redirection of arriving packets (modules cls_matchall, act_mirred)" \
        filter add dev "$device" ingress pref 1 handle 1 matchall action mirred egress redirect dev whydrop-delay
    tc qdisc del dev whydrop-delay root 2>/dev/null || true
    tc qdisc add dev whydrop-delay root handle 1: prio bands 16 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    tc_or_skip "netem (module sch_netem)" \
        qdisc add dev whydrop-delay parent 1:1 handle 10: netem limit 100000 delay "${delay}ms"
    band=1
    addresses=${1:-} delays=${2:-}
    while [ -n "$delays" ] && [ -n "$addresses" ]; do
        band=$((band + 1))
        tc qdisc add dev whydrop-delay parent "1:$(printf %x $band)" netem limit 100000 delay "${delays%%,*}ms"
        for side in src dst; do
            tc filter add dev whydrop-delay parent 1: protocol ip pref $band u32 match ip $side "${addresses%%,*}/32" \
                flowid "1:$(printf %x $band)"
        done
        addresses=$(rest "$addresses") delays=$(rest "$delays")
    done
}

# Kbit/s of a rate such as 10mbit.
kbit() {
    case $1 in
    *gbit) echo $((${1%gbit} * 1000000)) ;;
    *mbit) echo $((${1%mbit} * 1000)) ;;
    *kbit) echo "${1%kbit}" ;;
    *) refuse "$1: expected a rate such as 10mbit" ;;
    esac
}

# A queue by its name, as tc writes it: the kind first.
queue() {
    case $1 in
    pfifo_fast) echo "pfifo_fast" ;;
    # S. Floyd, R. Gummadi, S. Shenker, Adaptive RED (2001): a target delay of 5 ms, at least 5 packets.
    ared)
        min=$(($2 * 5 / 16))
        [ $min -ge 7570 ] || min=7570
        max=$((3 * min))
        echo "red limit 1514000 min $min max $max avpkt 1000 burst $(((2 * min + max) / 3000 + 1)) bandwidth ${2}kbit" \
            "probability 0.1 adaptive"
        ;;
    pie) echo "pie limit 1000" ;;
    codel) echo "codel limit 1000" ;;
    sfq) echo "sfq limit 1000 perturb 0" ;;
    fq_codel) echo "fq_codel limit 10240 noecn" ;;
    # Round robin without CoDel: a target that no packet reaches.
    fq_nocodel) echo "fq_codel limit 1000 noecn target 1000s interval 1000s" ;;
    fq_pie) echo "fq_pie limit 10240" ;;
    cake) echo "cake besteffort" ;;
    dualpi2) echo "dualpi2" ;;
    *) refuse "$1: expected pfifo_fast, ared, pie, codel, sfq, fq_codel, fq_nocodel, fq_pie, cake or dualpi2" ;;
    esac
}

router() {
    device=$1 rate=$2 rate_kbit=$(kbit "$2")
    setting=$(queue "$3" "$rate_kbit")
    offloads_off "$device"
    sysctl -q -w net.ipv4.ip_forward=1
    tc qdisc del dev "$device" root 2>/dev/null || true
    kind=${setting%% *}
    if [ "$kind" = cake ]; then
        tc_or_skip "$kind" qdisc add dev "$device" root handle 10: $setting bandwidth "$rate"
    else
        # A line sends one packet after the other: one full frame of burst, and 0.1 ms of it at high rates.
        burst=$((rate_kbit / 80))
        [ $burst -ge 1600 ] || burst=1600
        tc_or_skip "htb (module sch_htb)" qdisc add dev "$device" root handle 1: htb default 1
        tc class add dev "$device" parent 1: classid 1:1 htb rate "$rate" ceil "$rate" \
            burst $burst cburst $burst quantum 1514
        tc_or_skip "$kind" qdisc add dev "$device" parent 1:1 handle 10: $setting
    fi
    # tc may succeed and the kernel still use another queue: ask the kernel.
    tc qdisc show dev "$device" | grep -q "^qdisc $kind 10: " ||
        refuse "$device: expected the queue $kind, but it has: $(tc qdisc show dev "$device" | tr '\n' ' ')"
}

# Objects 1, 2, ... and a list of their addresses, served by HTTP/1.1 on port 8080.
serve() {
    command -v python3 >/dev/null || lacking "no python3, which serves the page"
    stop_serving
    mkdir -p $state/page
    rm -f $state/page/*
    sizes=$2 number=0
    while [ -n "$sizes" ]; do
        number=$((number + 1))
        head -c "${sizes%%,*}" /dev/urandom >"$state/page/$number"
        echo "http://$1:8080/$number" >>$state/page/list
        sizes=$(rest "$sizes")
    done
    setsid python3 -m http.server 8080 --protocol HTTP/1.1 --bind "$1" --directory $state/page \
        </dev/null >$state/server.log 2>&1 &
    echo $! >$state/server.pid
    waits=0
    until curl -sf -o /dev/null "http://$1:8080/list"; do
        waits=$((waits + 1))
        [ $waits -lt 100 ] || refuse "the web server did not start: $(tail -n 1 $state/server.log)"
        sleep 0.1
    done
}

stop_serving() {
    [ ! -e $state/server.pid ] || kill "$(cat $state/server.pid)" 2>/dev/null || true
    rm -f $state/server.pid
}

restore() {
    tc qdisc del dev "$1" root 2>/dev/null || true
    tc qdisc del dev "$1" clsact 2>/dev/null || true
    ip link del whydrop-delay 2>/dev/null || true
    [ -e "$state/$1" ] || return 0
    while read -r name; do ethtool -K "$1" "$name" on; done <"$state/$1"
    rm "$state/$1"
}

command=${1:-}
[ $# -lt 2 ] || shift
case $command in
end) end "$@" ;;
router) router "$@" ;;
show) tc -s -j qdisc show dev "$1" ;;
serve) serve "$@" ;;
restore)
    stop_serving
    for device in "$@"; do restore "$device"; done
    ;;
*) refuse "'$command': expected end, router, show, serve or restore" ;;
esac
