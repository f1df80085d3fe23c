#pragma once

/* What the first instruction of seccomp-base.bpf loads; src/image/seccomp-filters.ts knows it too. */
#define BASE_FILTER_MARK 0x646f726d
