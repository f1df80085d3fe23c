import { chmod, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { removeTree } from '../host/publish-directory.ts'
import { removeAbandoned } from '../host/work-directory.ts'

/** Prefix of directories in which layers are unpacked. */
export const UNPACKING = '.unpacking-'
/** What a failed pull keeps, so that another try can continue. */
const PULL_KEPT_MS = 24 * 3_600_000

/** skopeo has no privileges, and must be able to enter the directory. */
export async function makePullsDirectory(pullsDir: string): Promise<void> {
  await mkdir(pullsDir, { recursive: true, mode: 0o711 })
  const parent = dirname(pullsDir)
  const { mode } = await stat(parent)
  if ((mode & 0o001) === 0) await chmod(parent, (mode & 0o7777) | 0o011)
}

/** Removes what killed servers were unpacking, and pulls that failed a day ago. `importing` has the names in use. */
export async function removeOldPulls(
  pullsDir: string,
  importing: { has(name: string): boolean } = new Set(),
): Promise<void> {
  await removeAbandoned({ parent: pullsDir, prefix: UNPACKING })
  // Missing until the first image is pulled.
  for (const name of await readdir(pullsDir).catch(() => [])) {
    const path = join(pullsDir, name)
    // A pull that ends at this moment removes its directory itself.
    const made = await stat(path).catch(() => undefined)
    const isOld = made !== undefined && Date.now() - made.mtimeMs > PULL_KEPT_MS
    if (!name.startsWith('.') && !importing.has(name) && isOld) await removeTree(path)
  }
}
