import type { VolumeFiles } from '@dormouse/engine'
import type { FilesAccess } from '../../sandbox/sandbox-reader.ts'

/** The files of a volume, read the way those of a sandbox are. Nothing wakes and nothing has to continue. */
export function volumeAccess(files: VolumeFiles): FilesAccess {
  return {
    use: (_options, work) => work({ files }),
    attach: (_options, open) => each(open({ files })),
  }
}

async function* each<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  yield* items
}
