#!/bin/sh
# A worker of `holdfast prove` in shell, of a lock by SET NX PX on one Redis.
#
#     holdfast prove --store redis://localhost:6379 -- sh setnx.sh
#
# It needs redis-cli and timeout. With the argument "naive" it releases by DEL,
# without looking whose lock it is.
server=${HOLDFAST_PROVE_URL#redis://}
server=${server%%/*}
ttl=$HOLDFAST_PROVE_TTL_MS
release="if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
n=0

# Not a group of its own: what stops and kills this process is for redis-cli, too.
cli() { timeout --foreground 0.5 redis-cli -h "${server%:*}" -p "${server##*:}" "$@" 2>/dev/null; }

# The time since boot in milliseconds. It goes on while this process is stopped.
now() { read -r s _ </proc/uptime; s=${s%.*}${s#*.}0; echo "${s#"${s%%[!0]*}"}"; }

lock() { # NAME WAIT_MS
	end=$(($(now) + $2))
	while :; do
		n=$((n + 1)) mine=$$-$n until=$(($(now) + ttl))
		answer=$(cli SET "$1" "$mine" NX PX "$ttl") || answer=none
		[ "$answer" = OK ] && echo granted && return
		if [ "$(now)" -ge "$end" ]; then
			# Of a try "refused" says that somebody else has it. An empty answer does.
			if [ "$2" -eq 0 ] && [ "$answer" ]; then echo error no answer; else echo refused; fi
			return
		fi
		sleep 0.01
	done
}

echo ready
while read -r what name wait; do
	case $what in
	lock) lock "$name" "$wait" ;;
	check) if [ "$(now)" -lt "$until" ]; then echo held; else echo lost; fi ;;
	release)
		if [ "$1" = naive ]; then
			cli DEL "$name" >/dev/null && echo released || echo error
		else
			case $(cli EVAL "$release" 1 "$name" "$mine") in
			1) echo released ;;
			0) echo lost ;;
			*) echo error no answer ;;
			esac
		fi ;;
	esac
done
