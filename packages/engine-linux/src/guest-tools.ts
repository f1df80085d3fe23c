import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { guestPythonDir } from '@dormouse/guest'
import { makeWorkDirectory, publishDirectory } from './host/publish-directory.ts'

/**
 * Makes the directory that burrows see read-only as /.dormouse: the guest's code, and `run` as a mount point. It is a copy
 * named by its content, so that an upgrade of the sources never changes files under a live sandbox.
 */
export async function prepareGuestTools(dataDir: string): Promise<string> {
  const files = await pythonFiles(guestPythonDir)
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${relative(guestPythonDir, file)}\0`).update(await readFile(file))
  const parent = join(dataDir, 'tools', 'guest')
  const final = join(parent, hash.digest('hex').slice(0, 16))
  if (await stat(final).catch(() => undefined)) return final

  const work = await makeWorkDirectory(parent)
  await mkdir(join(work, 'run'))
  for (const file of files) await cp(file, join(work, 'guest', relative(guestPythonDir, file)))
  // Two servers with different data can start at once; whoever is second finds the same content in place.
  await publishDirectory(work, final).catch(async (error: unknown) => {
    if (!(await stat(final).catch(() => undefined))) throw error
  })
  return final
}

async function pythonFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith('.py'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}
