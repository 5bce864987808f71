# pip_failure LOG: prints the line that says why pip failed.
pip_failure() {
  if grep -qE 'connection broken|from versions: none' "$1"; then
    echo "the package index could not be reached: is the network up, and is a proxy needed (https_proxy)? (full log: $1)"
  else
    echo "$(grep -m1 '^ERROR' "$1" || tail -n 1 "$1") (full log: $1)"
  fi
}
