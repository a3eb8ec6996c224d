/*
 * Every setting of stepd, whole: one list. The struct, the parser, --help, --check and the README's
 * table come from it. Another setting is another row.
 *
 * X(TYPE, field, "NAME", min, max, "default" or NULL, flags, "help")
 *	STRING	text of min..max bytes
 *	PATH	the same, made absolute
 *	UINT	min..max
 *	SECONDS	min..max
 *	SIZE	bytes, with k, M, G, T (powers of 1024)
 *	BOOL	true or false
 *	CHOICE	one of the words of the default, which starts with the default: "auto|f32|bf16"
 *
 * A NULL default of a STRING or PATH is NULL in the struct: not set.
 */
#ifndef SUPERVISOR_SETTINGS_SETTINGS_H
#define SUPERVISOR_SETTINGS_SETTINGS_H

#define SETTING_SECRET 1 /* never printed */

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)

/* clang-format off */
#define SETTINGS_LIST(X) \
	/* network */ \
	X(STRING, listen, "STEPD_LISTEN", 1, 255, "127.0.0.1:8321", 0, \
	    "address and port to listen on; port 0 takes a free one") \
	X(UINT, port, "PORT", 0, 65535, "0", 0, \
	    "port to listen on, instead of the one in STEPD_LISTEN; 0 leaves that") \
	X(STRING, tls_cert, "STEPD_TLS_CERT", 1, 4095, NULL, 0, \
	    "certificate chain (PEM) for HTTPS; auto makes a self-signed one in the state folder") \
	X(PATH, tls_key, "STEPD_TLS_KEY", 1, 4095, NULL, 0, \
	    "private key (PEM, file mode 0600) of STEPD_TLS_CERT") \
	X(BOOL, insecure_listen, "STEPD_INSECURE_LISTEN", 0, 1, "false", 0, \
	    "allow plain HTTP on addresses other than loopback") \
	X(STRING, public_url, "STEPD_PUBLIC_URL", 1, 1024, NULL, 0, \
	    "how clients reach stepd (https://host[:port]), for the URLs of its object store") \
	X(STRING, token, "TRAINER_TOKEN", 16, 512, NULL, SETTING_SECRET, \
	    "the bearer token of clients; TRAINER_TOKEN_FILE names a file (mode 0600) instead") \
	X(PATH, tokens_file, "STEPD_TOKENS_FILE", 1, 4095, NULL, 0, \
	    "file (mode 0600) of more tokens, a line each: name token; one of the two must be there") \
	/* places */ \
	X(PATH, state_dir, "STEPD_STATE_DIR", 1, 4095, NULL, 0, \
	    "folder for everything stepd keeps (else $STATE_DIRECTORY, else ~/.local/state/stepd)") \
	X(STRING, status_socket, "STEPD_STATUS_SOCKET", 1, 4095, NULL, 0, \
	    "Unix socket that stepctl status asks (else status.sock in the state folder); off: none") \
	X(PATH, model_dir, "STEPD_MODEL_DIR", 1, 4095, NULL, 0, \
	    "folder with models: org/name, an alias, or a GGUF file below it") \
	X(PATH, hf_home, "HF_HOME", 1, 4095, NULL, 0, \
	    "Hugging Face cache (else ~/.cache/huggingface), read when STEPD_MODEL_DIR has no such model") \
	X(PATH, worker, "STEPD_WORKER", 1, 4095, NULL, 0, \
	    "the worker program (else stepd-worker beside stepd)") \
	X(PATH, worker_cuda, "STEPD_WORKER_CUDA", 1, 4095, NULL, 0, \
	    "the worker program for GPUs (else stepd-worker-cuda beside stepd, where there is one)") \
	X(PATH, ca_file, "STEPD_CA_FILE", 1, 4095, NULL, 0, \
	    "certificates (PEM) to trust for uploads and downloads, beside the system's") \
	X(STRING, egress_allow, "STEPD_EGRESS_ALLOW", 1, 4096, NULL, 0, \
	    "private hosts or networks that uploads and downloads may reach, comma separated") \
	X(CHOICE, sandbox, "STEPD_SANDBOX", 0, 0, "auto|off", 0, \
	    "confinement of stepd and its workers; auto takes all that the kernel offers") \
	X(STRING, worker_user, "STEPD_WORKER_USER", 1, 255, "nobody", 0, \
	    "user, by name or number, that workers become where stepd is the superuser") \
	/* compute */ \
	X(STRING, devices, "STEPD_DEVICES", 1, 1024, "auto", 0, \
	    "devices to train on, a session each: auto (GPUs where there are any), cpu, or GPUs by UUID or index as nvidia-smi has them, comma separated") \
	X(UINT, threads, "STEPD_THREADS", 0, 1024, "0", 0, \
	    "threads of a worker, as its session opens; 0: as many as may run, by the control group's quota too") \
	X(SIZE, worker_memory, "STEPD_WORKER_MEMORY", 0, 1024 * 1024 * GIB, "0", 0, \
	    "memory of a worker, by a control group of its own, else by RLIMIT_DATA; 0: no limit") \
	X(CHOICE, cpu_compute, "STEPD_CPU_COMPUTE", 0, 0, "auto|f32|bf16", 0, \
	    "number format of the products on a CPU; auto measures") \
	X(CHOICE, gpu_compute, "STEPD_GPU_COMPUTE", 0, 0, "auto|f32|bf16", 0, \
	    "number format of the products on a GPU; auto is bf16, f32 is for comparing") \
	X(CHOICE, cuda_graphs, "STEPD_CUDA_GRAPHS", 0, 0, "auto|off", 0, \
	    "on a GPU, micro-batches of a shape that was seen before are one launch, of the same bits (not with dropout); off: never") \
	/* limits */ \
	X(SIZE, body_limit, "STEPD_BODY_LIMIT", 64 * KIB, 4 * GIB, "64M", 0, \
	    "largest request body") \
	X(SIZE, body_memory, "STEPD_BODY_MEMORY", 64 * KIB, 64 * GIB, "512M", 0, \
	    "memory for the bodies of all requests together; beyond it the answer is 503") \
	X(UINT, connections, "STEPD_CONNECTIONS", 1, 65536, "1024", 0, \
	    "connections at a time; more are turned away") \
	X(SECONDS, header_timeout, "STEPD_HEADER_TIMEOUT", 1, 3600, "10", 0, \
	    "seconds for a request's headers to arrive") \
	X(SECONDS, body_timeout, "STEPD_BODY_TIMEOUT", 1, 3600, "30", 0, \
	    "seconds that a body, or a client reading an answer, may stand still") \
	X(SECONDS, idle_timeout, "STEPD_IDLE_TIMEOUT", 1, 86400, "75", 0, \
	    "seconds that an idle connection is kept") \
	X(SIZE, object_limit, "STEPD_OBJECT_LIMIT", 1, 8192 * GIB, "8G", 0, \
	    "largest object of the object store") \
	X(SIZE, object_space, "STEPD_OBJECT_SPACE", 1, 1024 * 1024 * GIB, "64G", 0, \
	    "all objects of the object store together") \
	X(SIZE, disk_reserve, "STEPD_DISK_RESERVE", 0, 8192 * GIB, "256M", 0, \
	    "space that objects leave free on the disk of the state folder") \
	X(SIZE, artifact_limit, "STEPD_ARTIFACT_LIMIT", 1, 8192 * GIB, "8G", 0, \
	    "largest artifact that is downloaded") \
	/* keeping */ \
	X(CHOICE, durability, "STEPD_DURABILITY", 0, 0, "disk|memory", 0, \
	    "where a step is before it is answered: on the disk, or with the kernel (lost with the machine)") \
	X(SECONDS, key_lifetime, "STEPD_KEY_LIFETIME", 1, 31536000, "86400", 0, \
	    "seconds that the answer to a request with an Idempotency-Key is kept") \
	X(UINT, snapshot_steps, "STEPD_SNAPSHOT_STEPS", 1, 1000000, "32", 0, \
	    "steps between recovery snapshots at most: so many are replayed at most") \
	X(SECONDS, failure_interval, "STEPD_FAILURE_INTERVAL", 1, 31536000, "10800", 0, \
	    "seconds between failures to reckon with: how often snapshots are worth their time") \
	X(BOOL, persist_data, "STEPD_PERSIST_DATA", 0, 1, "false", 0, \
	    "keep datums on the disk too, sealed, so that sessions need no render after a restart of stepd") \
	/* deadlines */ \
	X(SECONDS, ready_timeout, "STEPD_READY_TIMEOUT", 1, 3600, "30", 0, \
	    "seconds for a worker to start") \
	X(SECONDS, load_timeout, "STEPD_LOAD_TIMEOUT", 1, 86400, "900", 0, \
	    "seconds for a worker to load a model or an artifact") \
	X(SECONDS, render_timeout, "STEPD_RENDER_TIMEOUT", 1, 86400, "900", 0, \
	    "seconds for one datums:render") \
	X(SECONDS, train_timeout, "STEPD_TRAIN_TIMEOUT", 1, 86400, "1800", 0, \
	    "seconds for one batches:train") \
	X(SECONDS, save_timeout, "STEPD_SAVE_TIMEOUT", 1, 86400, "900", 0, \
	    "seconds for a worker to write an artifact") \
	X(SECONDS, generate_timeout, "STEPD_GENERATE_TIMEOUT", 1, 86400, "900", 0, \
	    "seconds for one samples:generate") \
	X(SECONDS, evaluate_timeout, "STEPD_EVALUATE_TIMEOUT", 1, 86400, "1800", 0, \
	    "seconds for one datums:evaluate") \
	X(SECONDS, end_timeout, "STEPD_END_TIMEOUT", 1, 3600, "10", 0, \
	    "seconds for a worker to end before it is killed") \
	X(SECONDS, connect_timeout, "STEPD_CONNECT_TIMEOUT", 1, 3600, "30", 0, \
	    "seconds for an upload or download to connect") \
	X(SECONDS, stall_timeout, "STEPD_STALL_TIMEOUT", 1, 3600, "60", 0, \
	    "seconds that an upload or download may stand still") \
	X(SECONDS, transfer_timeout, "STEPD_TRANSFER_TIMEOUT", 1, 86400, "1500", 0, \
	    "seconds for an upload or download as a whole") \
	X(SECONDS, stop_timeout, "STEPD_STOP_TIMEOUT", 1, 3600, "30", 0, \
	    "seconds that a stop waits for requests and workers") \
	X(CHOICE, log_level, "STEPD_LOG_LEVEL", 0, 0, "info|error|warning|debug", 0, \
	    "least important lines that are logged")

/* Settings of the trainers that stepd takes the place of, which belong to the job queue or to
   downloads from the hub: known, so that their users can start, and told to have no effect yet. */
#define SETTINGS_WITHOUT_EFFECT(X) \
	X("HF_TOKEN") X("MODEL_ID") X("BUCKET_ID") X("LORA_R") X("LORA_ALPHA") X("LORA_DROPOUT") \
	X("LORA_TARGET_MODULES") X("LEARNING_RATE") X("MAX_LENGTH") X("GRAD_ACCUM") \
	X("QUEUE_PERSIST")
/* clang-format on */

#endif
