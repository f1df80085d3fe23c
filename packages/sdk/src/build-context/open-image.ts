import { localFiles } from '#local-files'
import { invalidArgument } from '../check.ts'
import type { FileContent } from '../files/files.ts'
import { packContext } from './pack-context.ts'

/** The archive of an image on this machine, or its OCI layout as an archive. Only in Node. */
export async function openImage(path: string): Promise<FileContent> {
  if (await localFiles.isDirectory(path)) {
    if ((await localFiles.findFile(localFiles.pathOf(path, 'oci-layout'))) === undefined)
      throw notAnImage(path)
    return packContext(path, { followsLinks: true })
  }
  const file = await localFiles.findFile(path)
  if (file === undefined) throw notAnImage(path)
  return localFiles.contentOf(file)
}

function notAnImage(path: string): Error {
  return invalidArgument(
    'path',
    'is no image of this machine',
    path,
    'Name an archive (`docker save`, or OCI) or the directory of an OCI layout.',
  )
}
