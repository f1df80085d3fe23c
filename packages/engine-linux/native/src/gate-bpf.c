/*
 * A BPF program of type sk_lookup that makes connections to the outside arrive at the gate. The kernel runs it for each
 * new connection before it searches the namespace for a listening socket. The accepted socket keeps the address that
 * the client connected to.
 */
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate.h"

#define INSN(operation, dst, src, offset, immediate) \
    {.code = (operation), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (int32_t)(immediate)}
#define LOAD_FIELD(dst, field) INSN(BPF_LDX | BPF_MEM | BPF_W, dst, CONTEXT, offsetof(struct bpf_sk_lookup, field), 0)
#define FROM_NETWORK(dst) INSN(BPF_ALU | BPF_END | BPF_TO_BE, dst, 0, 0, 32)
#define COPY(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, value) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define SHIFT_RIGHT(dst, bits) INSN(BPF_ALU64 | BPF_RSH | BPF_K, dst, 0, 0, bits)
/* These compare 32 bits: the 64-bit forms sign-extend the immediate. */
#define IF_EQUAL(dst, value, label) INSN(BPF_JMP32 | BPF_JEQ | BPF_K, dst, 0, label, value)
#define IF_OTHER(dst, value, label) INSN(BPF_JMP32 | BPF_JNE | BPF_K, dst, 0, label, value)
#define IF_AT_LEAST(dst, value, label) INSN(BPF_JMP32 | BPF_JGE | BPF_K, dst, 0, label, value)
#define GO_TO(label) INSN(BPF_JMP | BPF_JA, 0, 0, label, 0)
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* Marks the target of jumps. assemble() removes it from the program. */
#define LABEL(label) INSN(0, 0, 0, label, 0)

enum { RESULT = BPF_REG_0, CONTEXT = BPF_REG_6, LISTENER = BPF_REG_7, WORD = BPF_REG_8, PART = BPF_REG_9 };
enum { TO_IPV6 = 1000, TO_LOW_IPV6, TO_OWN_IPV6, TO_GATE, TO_DROP, TO_PASS, LABELS_END };

/* The addresses of network.c, in host byte order. */
#define OWN_IPV4 0xc6120002u
#define OWN_IPV6_0 0xfd646f72u
#define OWN_IPV6_1 0x6d6f0000u
#define OWN_IPV6_2 0
#define OWN_IPV6_3 2

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))
#define MAX_INSTRUCTIONS 96

/* The program is the following parts, one after the other. Labels are shared between them. */

static const struct bpf_insn check_ipv4[] = {
    COPY(CONTEXT, BPF_REG_1),
    LOAD_FIELD(WORD, protocol),
    IF_OTHER(WORD, IPPROTO_TCP, TO_PASS),
    LOAD_FIELD(WORD, family),
    IF_EQUAL(WORD, AF_INET6, TO_IPV6),

    /* 0/8, 127/8, multicast and broadcast are never outside. */
    LOAD_FIELD(WORD, local_ip4),
    FROM_NETWORK(WORD),
    IF_EQUAL(WORD, OWN_IPV4, TO_PASS),
    SHIFT_RIGHT(WORD, 24),
    IF_EQUAL(WORD, 0, TO_PASS),
    IF_EQUAL(WORD, 127, TO_PASS),
    IF_AT_LEAST(WORD, 224, TO_PASS),
    GO_TO(TO_GATE),
};

static const struct bpf_insn check_ipv6[] = {
    LABEL(TO_IPV6),
    LOAD_FIELD(WORD, local_ip6[0]),
    FROM_NETWORK(WORD),
    IF_EQUAL(WORD, 0, TO_LOW_IPV6),
    IF_EQUAL(WORD, OWN_IPV6_0, TO_OWN_IPV6),
    /* fe80::/10 is link-local and ff00::/8 is multicast. */
    COPY(PART, WORD),
    SHIFT_RIGHT(PART, 22),
    IF_EQUAL(PART, 0x3fa, TO_PASS),
    SHIFT_RIGHT(WORD, 24),
    IF_EQUAL(WORD, 0xff, TO_PASS),
    GO_TO(TO_GATE),

    /* ::, ::1 and IPv4-mapped addresses, which no packet should have. */
    LABEL(TO_LOW_IPV6),
    LOAD_FIELD(WORD, local_ip6[1]),
    IF_OTHER(WORD, 0, TO_GATE),
    LOAD_FIELD(WORD, local_ip6[2]),
    FROM_NETWORK(WORD),
    IF_EQUAL(WORD, 0xffff, TO_PASS),
    IF_OTHER(WORD, 0, TO_GATE),
    LOAD_FIELD(WORD, local_ip6[3]),
    FROM_NETWORK(WORD),
    IF_AT_LEAST(WORD, 2, TO_GATE),
    GO_TO(TO_PASS),

    LABEL(TO_OWN_IPV6),
    LOAD_FIELD(WORD, local_ip6[1]),
    FROM_NETWORK(WORD),
    IF_OTHER(WORD, OWN_IPV6_1, TO_GATE),
    LOAD_FIELD(WORD, local_ip6[2]),
    IF_OTHER(WORD, OWN_IPV6_2, TO_GATE),
    LOAD_FIELD(WORD, local_ip6[3]),
    FROM_NETWORK(WORD),
    IF_EQUAL(WORD, OWN_IPV6_3, TO_PASS),
};

/* The file descriptor of the map goes before this part: see write_program(). */
static const struct bpf_insn assign_listener[] = {
    COPY(BPF_REG_2, BPF_REG_10),
    INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
    CALL(BPF_FUNC_map_lookup_elem),
    /* 64 bits: the verifier requires that the pointer itself is compared. */
    INSN(BPF_JMP | BPF_JEQ | BPF_K, RESULT, 0, TO_DROP, 0),
    COPY(LISTENER, RESULT),
    COPY(BPF_REG_1, CONTEXT),
    COPY(BPF_REG_2, LISTENER),
    SET(BPF_REG_3, 0),
    CALL(BPF_FUNC_sk_assign),
    COPY(WORD, RESULT),
    COPY(BPF_REG_1, LISTENER),
    CALL(BPF_FUNC_sk_release),
    IF_EQUAL(WORD, 0, TO_PASS),
    /* Passing would give the connection to a server inside that listens on all addresses. */
    LABEL(TO_DROP),
    SET(RESULT, SK_DROP),
    EXIT,
    LABEL(TO_PASS),
    SET(RESULT, SK_PASS),
    EXIT,
};

/* Removes the labels and turns jumps to them into distances. */
static unsigned int assemble(const struct bpf_insn *source, size_t count, struct bpf_insn *program)
{
    short place[LABELS_END - TO_IPV6] = {0};
    unsigned int size = 0;
    /* The second half of a 64-bit load has the code 0 too, but no offset. */
    for (size_t i = 0; i < count; i++) {
        if (source[i].code == 0 && source[i].off >= TO_IPV6)
            place[source[i].off - TO_IPV6] = (short)size;
        else
            program[size++] = source[i];
    }
    for (unsigned int i = 0; i < size; i++)
        if (program[i].off >= TO_IPV6)
            program[i].off = (short)(place[program[i].off - TO_IPV6] - (short)i - 1);
    return size;
}

static unsigned int write_program(int map, struct bpf_insn *program)
{
    const struct bpf_insn load_map[] = {
        LABEL(TO_GATE),
        INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0),
        INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
        INSN(0, 0, 0, 0, 0),
    };
    const struct { const struct bpf_insn *code; size_t length; } parts[] = {
        {check_ipv4, LENGTH(check_ipv4)},
        {check_ipv6, LENGTH(check_ipv6)},
        {load_map, LENGTH(load_map)},
        {assign_listener, LENGTH(assign_listener)},
    };
    _Static_assert(LENGTH(check_ipv4) + LENGTH(check_ipv6) + LENGTH(load_map) + LENGTH(assign_listener) <=
                       MAX_INSTRUCTIONS,
                   "the program is too long");
    struct bpf_insn source[MAX_INSTRUCTIONS];
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(parts); i++) {
        memcpy(source + count, parts[i].code, parts[i].length * sizeof(*source));
        count += parts[i].length;
    }
    return assemble(source, count, program);
}

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static int make_map(struct failure *failure)
{
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.map_type = BPF_MAP_TYPE_SOCKMAP;
    attributes.key_size = sizeof(uint32_t);
    attributes.value_size = sizeof(uint64_t);
    attributes.max_entries = 1;
    int map = bpf(BPF_MAP_CREATE, &attributes);
    if (map == -1)
        failed(failure, "make a map of sockets (CONFIG_BPF_SYSCALL, CONFIG_BPF_STREAM_PARSER)");
    return map;
}

static bool put_listener(int map, int listener, struct failure *failure)
{
    uint32_t key = 0;
    uint64_t value = (uint64_t)listener;
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.map_fd = (uint32_t)map;
    attributes.key = (uint64_t)(uintptr_t)&key;
    attributes.value = (uint64_t)(uintptr_t)&value;
    return bpf(BPF_MAP_UPDATE_ELEM, &attributes) == 0 || failed(failure, "put the listener into the map");
}

static int load_program(int map, struct failure *failure)
{
    struct bpf_insn program[MAX_INSTRUCTIONS];
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
    attributes.expected_attach_type = BPF_SK_LOOKUP;
    attributes.insn_cnt = write_program(map, program);
    attributes.insns = (uint64_t)(uintptr_t)program;
    /* No helper function that the program calls is GPL-only. */
    attributes.license = (uint64_t)(uintptr_t) "Apache-2.0";
    int loaded = bpf(BPF_PROG_LOAD, &attributes);
    if (loaded == -1)
        failed(failure, "load the program (Linux 5.9 or newer)");
    return loaded;
}

static int attach(int program, int netns, struct failure *failure)
{
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_fd = (uint32_t)netns;
    attributes.link_create.attach_type = BPF_SK_LOOKUP;
    int link = bpf(BPF_LINK_CREATE, &attributes);
    if (link == -1)
        failed(failure, "attach the program");
    return link;
}

int steer_connections(int netns, int listener, struct failure *failure)
{
    int program = -1, link = -1;
    int map = make_map(failure);
    if (map != -1 && put_listener(map, listener, failure))
        program = load_program(map, failure);
    if (program != -1)
        link = attach(program, netns, failure);
    /* The link keeps the program alive, and the program keeps the map. The kernel makes bpf descriptors close-on-exec. */
    if (program != -1)
        close(program);
    if (map != -1)
        close(map);
    return link;
}

bool probe_steering(struct failure *failure)
{
    int map = make_map(failure);
    int program = map == -1 ? -1 : load_program(map, failure);
    if (program != -1)
        close(program);
    if (map != -1)
        close(map);
    return program != -1;
}
