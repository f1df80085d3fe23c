import { chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RESOLVER } from '../network/addresses.ts'
import { UID_BASE } from '../template/shifted-root.ts'

/** Names the layer in the index; raised when its content changes. */
export const SETTINGS_LAYER = 'settings-1'

const FILES = [
  ['etc/hosts', '127.0.0.1\tlocalhost\n127.0.0.1\tsandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n'],
  ['etc/resolv.conf', `nameserver ${RESOLVER}\noptions timeout:5 attempts:2\n`],
] as const

/** Makes the layer that lies on top of every image: docker, too, writes these files over those of the image. */
export async function makeSettingsLayer(into: string): Promise<void> {
  for (const path of ['', 'etc']) {
    await mkdir(join(into, path), { mode: 0o755 })
    await chown(join(into, path), UID_BASE, UID_BASE)
  }
  for (const [path, content] of FILES) {
    await writeFile(join(into, path), content, { mode: 0o644, flag: 'wx' })
    await chown(join(into, path), UID_BASE, UID_BASE)
  }
}
