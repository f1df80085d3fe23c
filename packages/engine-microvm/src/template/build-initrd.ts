import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { guestInit } from '../native-programs.ts'
import type { GuestKernel } from './guest-kernel.ts'

/** In the order in which they depend on each other. */
export const GUEST_MODULES = [
  'drivers/virtio/virtio.ko',
  'drivers/virtio/virtio_ring.ko',
  'drivers/virtio/virtio_mmio.ko',
  'drivers/block/virtio_blk.ko',
  'drivers/char/virtio_console.ko',
  'drivers/char/hw_random/virtio-rng.ko',
  'drivers/virtio/virtio_balloon.ko',
  'net/core/failover.ko',
  'drivers/net/net_failover.ko',
  'drivers/net/virtio_net.ko',
  'net/ipv4/inet_diag.ko',
  'net/ipv4/tcp_diag.ko',
  'fs/overlayfs/overlay.ko',
  'fs/fuse/fuse.ko',
]
/** For containers inside: a guest has no /lib/modules to load them from. A guest starts without them, too. */
const CONTAINER_MODULES = [
  'drivers/net/tun.ko',
  'net/llc/llc.ko',
  'net/802/stp.ko',
  'net/bridge/bridge.ko',
  'net/bridge/br_netfilter.ko',
  'drivers/net/veth.ko',
  'lib/libcrc32c.ko',
  'net/netfilter/nfnetlink.ko',
  'net/ipv4/netfilter/nf_defrag_ipv4.ko',
  'net/ipv6/netfilter/nf_defrag_ipv6.ko',
  'net/netfilter/nf_conntrack.ko',
  'net/netfilter/nf_conntrack_netlink.ko',
  'net/netfilter/nf_nat.ko',
  'net/netfilter/nf_tables.ko',
  'net/netfilter/nft_ct.ko',
  'net/netfilter/nft_chain_nat.ko',
  'net/netfilter/nft_nat.ko',
  'net/netfilter/nft_masq.ko',
  'net/netfilter/nft_fib.ko',
  'net/ipv4/netfilter/nft_fib_ipv4.ko',
  'net/ipv6/netfilter/nft_fib_ipv6.ko',
  'net/netfilter/nft_fib_inet.ko',
  'net/ipv4/netfilter/nf_reject_ipv4.ko',
  'net/ipv6/netfilter/nf_reject_ipv6.ko',
  'net/netfilter/nft_reject.ko',
  'net/netfilter/nft_reject_inet.ko',
  'net/netfilter/x_tables.ko',
  'net/netfilter/nft_compat.ko',
  'net/netfilter/xt_conntrack.ko',
  'net/netfilter/xt_MASQUERADE.ko',
  'net/netfilter/xt_addrtype.ko',
  'net/netfilter/xt_nat.ko',
  'net/netfilter/xt_tcpudp.ko',
  'net/netfilter/xt_comment.ko',
  'net/netfilter/xt_mark.ko',
  'net/netfilter/xt_multiport.ko',
  // Docker 28 and newer name the addresses of their networks in sets.
  'net/netfilter/ipset/ip_set.ko',
  'net/netfilter/ipset/ip_set_hash_net.ko',
  'net/netfilter/xt_set.ko',
]
const DIRECTORY = 0o040755
const FILE = 0o100644
const PROGRAM = 0o100755

/** Makes the file system that the guest's kernel starts from: our PID 1 and the drivers it loads. */
export async function buildInitrd(kernel: GuestKernel, directory: string): Promise<string> {
  const needed = await readModules(kernel, GUEST_MODULES)
  const present = CONTAINER_MODULES.filter((path) => existsSync(join(kernel.modulesDir, path)))
  const optional = await readModules(kernel, present)
  const modules = [...needed, ...optional]
  // See load_modules in native/src/guest-init.c.
  const lines = [...needed.map(({ name }) => name), ...optional.map(({ name }) => `-${name}`)]
  const order = Buffer.from(lines.map((line) => `${line}\n`).join(''))
  const entries: CpioEntry[] = [
    { name: 'dev', mode: DIRECTORY },
    { name: 'modules', mode: DIRECTORY },
    ...modules.map(({ name, data }) => ({ name: `modules/${name}`, mode: FILE, data })),
    { name: 'modules/order', mode: FILE, data: order },
    { name: 'init', mode: PROGRAM, data: await readFile(guestInit) },
  ]
  const archive = packCpio(entries)
  const hash = createHash('sha256').update(archive).digest('hex').slice(0, 16)
  const path = join(directory, `initrd-${hash}`)
  if (existsSync(path)) return path
  await writeFile(`${path}.${process.pid}`, archive, { mode: 0o644 })
  await rename(`${path}.${process.pid}`, path)
  return path
}

function readModules({ modulesDir }: GuestKernel, paths: readonly string[]) {
  return Promise.all(
    paths.map(async (path) => ({ name: basename(path), data: await readFile(join(modulesDir, path)) })),
  )
}

interface CpioEntry {
  readonly name: string
  readonly mode: number
  readonly data?: Buffer
}

/** The format `newc`, which the kernel unpacks. */
function packCpio(entries: readonly CpioEntry[]): Buffer {
  const parts: Buffer[] = []
  for (const [index, entry] of [...entries, { name: 'TRAILER!!!', mode: 0 }].entries()) {
    const { name, mode, data = Buffer.alloc(0) } = entry as CpioEntry
    const path = Buffer.from(`${name}\0`)
    const fields = [index + 1, mode, 0, 0, 1, 0, data.length, 0, 0, 0, 0, path.length, 0]
    const header = Buffer.from(`070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`)
    parts.push(header, path, padding(header.length + path.length), data, padding(data.length))
  }
  return Buffer.concat(parts)
}

function padding(length: number): Buffer {
  return Buffer.alloc((4 - (length % 4)) % 4)
}
