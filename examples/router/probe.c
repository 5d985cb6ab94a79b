/* The probe itself, once in a program, and compiled without sanitizers. */
#define WIRESPEED_PROBE_IMPLEMENTATION
#include "wirespeed_probe.h"
/* Without a probe there is nothing here, which C does not allow. */
typedef int wirespeed_probe_is_off;
