import { join } from 'node:path'
import { runCommandOrFail } from '../host/run-command.ts'
import { PageWorker } from '../image/page-worker.ts'
import type { FullManifest } from '../storage/manifest.ts'
import { damaged } from '../storage/verify-snapshot.ts'

/** Post: memory files that have arrived are what the manifest says, and on disk. */
export async function finishMemory(directory: string, arrived: FullManifest['memory']): Promise<void> {
  for (const { name, mtimeNs } of arrived) {
    const time = `@${mtimeNs / 1_000_000_000n}.${String(mtimeNs % 1_000_000_000n).padStart(9, '0')}`
    const argv = ['touch', '--no-create', '--date', time, join(directory, name)] as const
    await runCommandOrFail({ argv }, 'finishing a memory file')
  }
  await using worker = new PageWorker()
  const sums = await worker.recall(arrived.map(({ name }) => join(directory, name)))
  const wrong = arrived.find(({ checksum }, index) => sums[index]?.checksum !== checksum)
  if (wrong !== undefined) throw damaged(`the memory file ${wrong.name} is damaged`)
  await worker.sync([directory])
}
