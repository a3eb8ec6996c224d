# Sourced by check_gpu.sh, with $cuda: adds the folders of the libraries that its programs do not find to
# LD_LIBRARY_PATH. cuBLAS lies where a toolkit or PyTorch's wheels put it, libcuda where the driver's folder was mounted.

# What the loader says of the programs, one line each.
loader_says() {
	for p in "$build/stepctl" "$build/stepd" "$cuda/stepd-worker"; do
		[ ! -x "$p" ] || LD_TRACE_LOADED_OBJECTS=1 "$p" 2>&1
	done
}

# Folders where it may be, the likely ones first.
cuda_folders() {
	echo "$(pwd)/lib"
	for top in "${CUDA:-}" "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-* /opt/cuda /opt/conda; do
		[ -z "$top" ] || printf '%s\n' "$top"/lib64 "$top"/targets/*/lib "$top"/lib
	done
	nvcc=$(command -v nvcc) && dirname "$(dirname "$(realpath "$nvcc")")" | sed 's|$|/lib64|'
	command -v python3 >/dev/null && python3 -c 'import glob, sys
for path in sys.path:
    print(*glob.glob(path + "/nvidia/*/lib"), sep="\n")' 2>/dev/null
}

# The folder that has the library; at last the whole machine is searched.
folder_with() {
	cuda_folders | while read -r folder; do
		[ ! -e "$folder/$1" ] || {
			echo "$folder"
			break
		}
	done | grep . && return
	timeout 20 find / \( -path /proc -o -path /sys -o -path '*/stubs' \) -prune -o -name "$1" -print 2>/dev/null |
		head -n 1 | sed 's|/[^/]*$||'
}

add_folder() {
	echo "$1: in $2"
	LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$2
	export LD_LIBRARY_PATH
}

# libcuda.so.1 is opened by its name, so the loader does not miss it here.
find_driver() {
	case $( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null) in
	*libcuda.so.1*) return ;;
	esac
	for folder in $(echo "${LD_LIBRARY_PATH:-}" | tr : ' ') /lib /usr/lib /lib64 /usr/lib64 /usr/lib/x86_64-linux-gnu; do
		[ ! -e "$folder/libcuda.so.1" ] || return
	done
	for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib /run/opengl-driver/lib \
		/usr/local/*/lib64 /opt/*/lib64; do
		[ ! -e "$folder/libcuda.so.1" ] || {
			add_folder libcuda.so.1 "$folder"
			return
		}
	done
	echo "libcuda.so.1 is nowhere: is NVIDIA's driver installed?"
}

# 0, or 1 where the programs cannot run here.
find_libraries() {
	find_driver
	for _ in 1 2 3 4; do # of one that was found others may be needed
		said=$(loader_says)
		old=$(echo "$said" | sed -n "s/.*version .\(GLIBC_[0-9.]*\)' not found.*/\1/p" | sort -u | tail -n 1)
		if [ -n "$old" ]; then
			echo "the programs need $old, the glibc of this machine is older: build them here (make check-gpu)"
			return 1
		fi
		lacking=$(echo "$said" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u)
		[ -n "$lacking" ] || return 0
		for name in $lacking; do
			folder=$(folder_with "$name")
			if [ -z "$folder" ]; then
				echo "$name is not on this machine:" \
					"cuBLAS comes with the CUDA toolkit or 'pip install nvidia-cublas'; CUDA= names its folder"
				return 1
			fi
			add_folder "$name" "$folder"
		done
	done
	echo "the programs still lack $lacking"
	return 1
}
