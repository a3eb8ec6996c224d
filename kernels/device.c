#include "kernels/context.h"
#include "kernels/device.h"

const char *
device_backend(void)
{
	return "cpu";
}

int
device_count(void)
{
	return 0;
}

enum op_status
device_identify(struct device_info *out, int index)
{
	return device_describe(out, index);
}

enum op_status
device_memory(struct device_info *out, int index)
{
	return device_describe(out, index);
}

enum op_status
device_describe(struct device_info *out, int index)
{
	(void)out;
	return op_fail(NULL, OP_UNSUPPORTED, "no device %d", index);
}

enum device_fault
device_failed(const char **text)
{
	*text = "";
	return DEVICE_SOUND;
}
