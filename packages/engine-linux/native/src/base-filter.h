#pragma once

/*
 * The constant that the first instruction of seccomp-base.bpf loads. Keep it equal to MARK in
 * src/image/seccomp-filters.ts.
 */
#define BASE_FILTER_MARK 0x646f726d
