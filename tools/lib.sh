# Shared by the scripts in this folder.

# How maturin has pyo3 compiled. Whoever else compiles says the same, or it is compiled again.
for config in "$PWD/${CARGO_TARGET_DIR:-target}"/maturin/pyo3-config-*.txt; do
    [ -f "$config" ] && export PYO3_CONFIG_FILE=$config
done
if [ -x .venv/bin/python ]; then
    export PYO3_PYTHON=$PWD/.venv/bin/python
    PYO3_ENVIRONMENT_SIGNATURE=$("$PYO3_PYTHON" -c \
        'import sys; print("{0.name}-{1.major}.{1.minor}-64bit".format(sys.implementation, sys.version_info))')
    export PYO3_ENVIRONMENT_SIGNATURE
fi

# Python that may write no compiled files compiles all that it imports at every start, and tests start it a thousand
# times. These stay apart from the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-$PWD/build/compiled}

say() { printf 'whydrop: %s\n' "$*" >&2; }

fail() {
    printf 'whydrop: %s\n' "$*" >&2
    exit 1
}

# want_packages WHAT PACKAGE...: installs Debian packages where we may, else says which ones are wanted.
want_packages() {
    local what=$1
    shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $what: apt-get install $*"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
            >/dev/null 2>&1 </dev/null || say "apt-get could not install $*"
    else
        say "$what is missing. On Debian: apt-get install $*"
    fi
}

# timed WHAT COMMAND...: runs it, says that it begins and what it took, and remembers it for tell_times.
took=()
timed() {
    local what=$1 began=$SECONDS
    shift
    say "$what"
    "$@"
    took+=("$(printf '%5d s  %s' $((SECONDS - began)) "$what")")
}

# tell_times: what each step of this script took, and all of them.
tell_times() {
    local line
    for line in "${took[@]}"; do say "$line"; done
    say "$(printf '%5d s  in all' "$SECONDS")"
}
