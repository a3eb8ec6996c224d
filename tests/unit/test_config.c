/* Settings: each from the environment, with its default, its range and its refusal. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/settings/config.h"
#include "supervisor/settings/config_table.h"
#include "tests/unit/test.h"

#define TOKEN "TRAINER_TOKEN=0123456789abcdef"
#define HOME "HOME=/home/someone"
#define LOAD(...) load((char *const[]){__VA_ARGS__, NULL})

static struct config c;
static char error[CONFIG_ERROR_MAX];

static int
load(char *const *env)
{
	config_fini(&c);
	return config_load(&c, env, error);
}

TEST(defaults)
{
	CHECK(LOAD(TOKEN, HOME) == 0);
	CHECK_STR(error, "");
	CHECK_STR(c.listen, "127.0.0.1:8321");
	CHECK_STR(c.token, "0123456789abcdef");
	CHECK_STR(c.state_dir, "/home/someone/.local/state/stepd");
	CHECK_STR(c.hf_home, "/home/someone/.cache/huggingface");
	CHECK_STR(c.devices, "auto");
	CHECK_STR(c.cpu_compute, "auto");
	CHECK_STR(c.gpu_compute, "auto");
	CHECK_STR(c.cuda_graphs, "auto");
	CHECK_STR(c.log_level, "info");
	CHECK(c.port == 0 && c.threads == 0 && !c.insecure_listen);
	CHECK(c.tls_cert == NULL && c.tls_key == NULL && c.model_dir == NULL);
	CHECK(c.body_limit == 64u << 20 && c.object_limit == 8ull << 30);
	CHECK(strcmp(strrchr(c.worker, '/'), "/stepd-worker") == 0 && *c.worker == '/');
}

TEST(values)
{
	CHECK(LOAD(TOKEN, HOME, "STEPD_LISTEN=[::1]:80", "PORT=8088", "STEPD_THREADS=4",
		  "STEPD_BODY_LIMIT=1m", "STEPD_OBJECT_LIMIT=2T", "STEPD_INSECURE_LISTEN=yes",
		  "STEPD_CPU_COMPUTE=bf16", "STEPD_GPU_COMPUTE=f32", "STEPD_CUDA_GRAPHS=off",
		  "STEPD_MODEL_DIR=models", "STEPD_CA_FILE=/x", "STEPD_IDLE_TIMEOUT=") == 0);
	CHECK_STR(c.listen, "[::1]:80");
	CHECK(c.port == 8088 && c.threads == 4 && c.insecure_listen && c.idle_timeout == 75);
	CHECK(c.body_limit == 1u << 20 && c.object_limit == 2ull << 40);
	CHECK_STR(c.cpu_compute, "bf16");
	CHECK_STR(c.gpu_compute, "f32");
	CHECK_STR(c.cuda_graphs, "off");
	CHECK(*c.model_dir == '/' && strcmp(strrchr(c.model_dir, '/'), "/models") == 0);
}

TEST(state_folders)
{
	CHECK(LOAD(TOKEN, HOME, "XDG_STATE_HOME=/x") == 0);
	CHECK_STR(c.state_dir, "/x/stepd");
	CHECK(LOAD(TOKEN, HOME, "XDG_STATE_HOME=/x", "STATE_DIRECTORY=/var/lib/stepd:/b") == 0);
	CHECK_STR(c.state_dir, "/var/lib/stepd");
	CHECK(LOAD(TOKEN, HOME, "STATE_DIRECTORY=/var/lib/stepd", "STEPD_STATE_DIR=/mine") == 0);
	CHECK_STR(c.state_dir, "/mine");
	CHECK(LOAD(TOKEN) == -EINVAL && strstr(error, "STEPD_STATE_DIR") != NULL);
}

/* Each is refused, and the error names it. */
TEST(faults)
{
	static const char *const table[] = {"STEPD_LISTN=127.0.0.1:1", "STEPD_=1",
	    "STEPD_THREADS=x", "STEPD_THREADS=-1", "STEPD_THREADS=1025", "STEPD_THREADS= 1",
	    "STEPD_THREADS=1.5", "STEPD_THREADS=99999999999999999999", "STEPD_BODY_LIMIT=1x",
	    "STEPD_BODY_LIMIT=1kk", "STEPD_BODY_LIMIT=1k", "STEPD_BODY_LIMIT=99999999999999T",
	    "STEPD_INSECURE_LISTEN=maybe", "STEPD_CPU_COMPUTE=f16", "STEPD_CPU_COMPUTE=auto|f32",
	    "STEPD_CPU_COMPUTE=AUTO", "PORT=65536", "PORT=http", "STEPD_TLS_CERT=/a",
	    "STEPD_TLS_KEY=/a", "STEPD_PUBLIC_URL=trainer.example", "STEPD_PUBLIC_URL=https://",
	    "STEPD_PUBLIC_URL=https://a/b", "STEPD_STOP_TIMEOUT=0"};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(table[i], "="), table[i]);
		CHECK_MSG(LOAD(TOKEN, HOME, (char *)table[i]) == -EINVAL, "%s", table[i]);
		CHECK_MSG(strstr(error, name) != NULL, "\"%s\" does not name %s", error, name);
	}
	/* all of them, each on its line */
	CHECK(LOAD(TOKEN, HOME, "STEPD_A=1", "STEPD_THREADS=x", "PORT=y") == -EINVAL);
	CHECK(strstr(error, "STEPD_A") != NULL && strstr(error, "\nSTEPD_THREADS") != NULL &&
	      strstr(error, "\nPORT") != NULL);
}

TEST(tokens)
{
	CHECK(LOAD(HOME) == -EINVAL && strstr(error, "TRAINER_TOKEN") != NULL);
	CHECK(LOAD(HOME, "TRAINER_TOKEN=") == -EINVAL);
	CHECK(LOAD(HOME, "TRAINER_TOKEN=tooshort-secret") == -EINVAL);
	CHECK(strstr(error, "tooshort") == NULL);
	CHECK(LOAD(HOME, "TRAINER_TOKEN=has a space in it somewhere") == -EINVAL);
	CHECK(strstr(error, "somewhere") == NULL);
	CHECK(LOAD(HOME, "TRAINER_TOKEN=0123456789abcde\xc3\xa9") == -EINVAL);
}

/* What is wrong whatever GPUs there are. */
TEST(devices)
{
	static const char *const right[] = {
	    "auto", "cpu", "0", "15", "10,0,1", "GPU-a", "MIG-a,GPU-a,3", "GPU-a,GPU-ab,1,10"};
	static const char *const wrong[] = {"CPU", "gpu", "cpu,0", "0,auto", "GPU-", "0,", ",0",
	    "0,,1", ",", "00", "01", "-1", "0x1", "0 ", "0, 1", "0;1", "gpu-a", "MIG-,0"};
	static const char *const twice[] = {"0,0", "1,0,1", "GPU-a,0,GPU-a", "0,1,10,1"};
	char text[64];

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		snprintf(text, sizeof(text), "STEPD_DEVICES=%s", right[i]);
		CHECK_MSG(LOAD(TOKEN, HOME, text) == 0, "%s: %s", text, error);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "STEPD_DEVICES=%s", wrong[i]);
		CHECK_MSG(LOAD(TOKEN, HOME, text) == -EINVAL, "%s", text);
		CHECK(strstr(error, "STEPD_DEVICES: \"") != NULL && strstr(error, "UUID") != NULL);
	}
	for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
		snprintf(text, sizeof(text), "STEPD_DEVICES=%s", twice[i]);
		CHECK_MSG(LOAD(TOKEN, HOME, text) == -EINVAL, "%s", text);
		CHECK(strstr(error, "only once") != NULL);
	}
}

static void
write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
	chmod(path, mode);
}

TEST(token_files)
{
	char folder[] = "/tmp/stepd-test-XXXXXX", path[64], file[128], credentials[128];

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/trainer_token", folder);
	snprintf(file, sizeof(file), "TRAINER_TOKEN_FILE=%s", path);
	snprintf(credentials, sizeof(credentials), "CREDENTIALS_DIRECTORY=%s", folder);
	CHECK(LOAD(HOME, file) == -EINVAL && strstr(error, "No such file") != NULL);
	write_file(path, "from-the-file-0123\n", 0600);
	CHECK(LOAD(HOME, file) == 0);
	CHECK_STR(c.token, "from-the-file-0123");
	CHECK(LOAD(HOME, file, TOKEN) == -EINVAL && strstr(error, "both") != NULL);
	chmod(path, 0400);
	CHECK(LOAD(HOME, file) == 0);
	chmod(path, 0640);
	CHECK(LOAD(HOME, file) == -EINVAL && strstr(error, "0640") != NULL);
	CHECK(LOAD(HOME, credentials) == 0); /* systemd's folder is closed itself */
	CHECK_STR(c.token, "from-the-file-0123");
	CHECK(LOAD(HOME, credentials, TOKEN) == 0);
	CHECK_STR(c.token, "0123456789abcdef");
	write_file(path, "short\n", 0600);
	CHECK(LOAD(HOME, file) == -EINVAL && strstr(error, "short") == NULL);
	snprintf(file, sizeof(file), "TRAINER_TOKEN_FILE=%s", folder);
	CHECK(LOAD(HOME, file) == -EINVAL && strstr(error, "regular") != NULL);
	unlink(path);
	rmdir(folder);
}

TEST(printing_hides_secrets)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	CHECK(LOAD(TOKEN, HOME, "STEPD_BODY_LIMIT=65537") == 0);
	config_print(&c, out);
	fclose(out);
	CHECK(strstr(text, "0123456789abcdef") == NULL);
	CHECK(strstr(text, "\nTRAINER_TOKEN=(hidden)\n") != NULL);
	CHECK(strstr(text, "\nSTEPD_BODY_LIMIT=65537\n") != NULL);
	CHECK(strstr(text, "\nSTEPD_OBJECT_LIMIT=8G\n") != NULL);
	CHECK(strstr(text, "\nSTEPD_INSECURE_LISTEN=false\n") != NULL);
	free(text);
}

TEST(names_of_others)
{
	char *const env[] = {TOKEN, HOME, "LORA_R=8", "QUEUE_PERSIST=true", "MODEL_ID=", NULL};

	CHECK(load(env) == 0);
	CHECK_STR(config_without_effect(env, 0), "LORA_R");
	CHECK_STR(config_without_effect(env, 1), "QUEUE_PERSIST");
	CHECK(config_without_effect(env, 2) == NULL);
}

TEST(sizes_as_text)
{
	static const struct {
		uint64_t value;
		const char *text;
	} table[] = {{0, "0"}, {1, "1"}, {1023, "1023"}, {1024, "1k"}, {1536, "1536"},
	    {64ull << 20, "64M"}, {1ull << 50, "1024T"}};
	char text[32];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		setting_size_text(table[i].value, text);
		CHECK_STR(text, table[i].text);
	}
}

TEST(everything_is_freed)
{
	config_fini(&c);
	CHECK(c.token == NULL && c.listen == NULL && c.devices == NULL);
	config_fini(&c);
}

TEST_MAIN(TEST_CASE(defaults), TEST_CASE(values), TEST_CASE(state_folders), TEST_CASE(faults),
    TEST_CASE(tokens), TEST_CASE(devices), TEST_CASE(token_files),
    TEST_CASE(printing_hides_secrets), TEST_CASE(names_of_others), TEST_CASE(sizes_as_text),
    TEST_CASE(everything_is_freed))
