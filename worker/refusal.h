#include "ipc/refusal.h"
