import { localFiles } from '#local-files'
import type { LocalTree } from '../local-files/local-files.ts'
import { dockerIgnore } from './docker-ignore.ts'
import { type TarFile, tar } from './tar.ts'

export interface PackContext {
  /** Sends what links to files lead to. Otherwise links stay links. */
  readonly followsLinks?: boolean
}

/** The files of a directory as an archive, without those that its .dockerignore names. Only in Node. */
export async function packContext(
  directory: string,
  { followsLinks = false }: PackContext = {},
): Promise<AsyncIterable<Uint8Array>> {
  const ignored = dockerIgnore((await readContextFile(directory, '.dockerignore')) ?? '')
  const isSent = (below: string) => !ignored.matches(below)
  // A directory may be ignored and a file in it not.
  const filter = ignored.hasExceptions ? () => true : isSent
  const tree = await localFiles.readTree(directory, { filter, keepsLinks: !followsLinks })
  return tar(entriesOf(tree).filter(({ path }) => isSent(path.replace(/\/$/, ''))))
}

function entriesOf({ directories, links, files }: LocalTree): TarFile[] {
  return [
    ...directories
      .filter((below) => below !== '')
      .map((below) => ({ path: `${below}/`, mode: 0o755, sizeBytes: 0 })),
    ...links.map(({ below, target }) => ({ path: below, mode: 0o777, sizeBytes: 0, link: target })),
    ...files.map((file) => ({
      path: file.below,
      mode: file.mode,
      sizeBytes: file.sizeBytes,
      content: async () => (await localFiles.contentOf(file)) as AsyncIterable<Uint8Array> | Uint8Array,
    })),
  ]
}

/** The text of a file at the top of the directory, if it is there. Only in Node. */
export async function readContextFile(directory: string, name: string): Promise<string | undefined> {
  const { files } = await localFiles.readTree(directory, { filter: (below) => below === name })
  const [file] = files
  if (file === undefined) return undefined
  const content = (await localFiles.contentOf(file)) as AsyncIterable<Uint8Array> | Uint8Array
  let text = ''
  const decoder = new TextDecoder()
  for await (const piece of content instanceof Uint8Array ? [content] : content)
    text += decoder.decode(piece, { stream: true })
  return text
}
