/*
 * A libnftables.so.1 for CRIU, which links it to block the network of processes that it saves. Burrows are blocked
 * otherwise (`--network-lock skip`), but loading nftables costs CPU time at every start of CRIU. CRIU tries a command
 * when it examines the kernel; that every command fails means a kernel without nftables.
 */
#include <stdio.h>

struct nft_ctx {
    int unused;
};

static struct nft_ctx context;

struct nft_ctx *nft_ctx_new(unsigned int flags)
{
    (void)flags;
    return &context;
}

void nft_ctx_free(struct nft_ctx *unused)
{
    (void)unused;
}

int nft_ctx_buffer_output(struct nft_ctx *unused)
{
    (void)unused;
    return 0;
}

int nft_ctx_buffer_error(struct nft_ctx *unused)
{
    (void)unused;
    return 0;
}

FILE *nft_ctx_set_output(struct nft_ctx *unused, FILE *file)
{
    (void)unused;
    return file;
}

FILE *nft_ctx_set_error(struct nft_ctx *unused, FILE *file)
{
    (void)unused;
    return file;
}

const char *nft_ctx_get_error_buffer(struct nft_ctx *unused)
{
    (void)unused;
    return "nftables is left out";
}

int nft_run_cmd_from_buffer(struct nft_ctx *unused, const char *command)
{
    (void)unused;
    (void)command;
    return -1;
}
