import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** What a wake copies, and the disk space that only this snapshot takes: files with more links belong to the template. */
export async function measureFiles(directory) {
  const current = await findCurrent(directory)
  let [copiedBytes, diskBytes] = [0, 0]
  for (const name of await readdir(current, { recursive: true })) {
    const { size, blocks, nlink } = await stat(join(current, name))
    if (/images\/pages-\d+\.img$/.test(name)) copiedBytes += size
    if (nlink === 1) diskBytes += blocks * 512
  }
  return { copiedBytes, diskBytes }
}

/** The directory of the version of a snapshot that restores use: upkeep may have made a new one. */
export async function findCurrent(directory) {
  const { generation } = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8'))
  return generation === undefined ? directory : join(directory, `generation-${generation}`)
}
