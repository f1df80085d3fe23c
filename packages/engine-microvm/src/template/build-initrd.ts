import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { guestInit } from '../native-programs.ts'
import type { GuestKernel } from './guest-kernel.ts'

/** In the order in which they depend on each other. */
const MODULES = [
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
const DIRECTORY = 0o040755
const FILE = 0o100644
const PROGRAM = 0o100755

/** Makes the file system that the guest's kernel starts from: our PID 1 and the drivers it loads. */
export async function buildInitrd(kernel: GuestKernel, directory: string): Promise<string> {
  const modules = await Promise.all(
    MODULES.map(async (path) => ({
      name: basename(path),
      data: await readFile(join(kernel.modulesDir, path)),
    })),
  )
  const order = Buffer.from(modules.map(({ name }) => `${name}\n`).join(''))
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
