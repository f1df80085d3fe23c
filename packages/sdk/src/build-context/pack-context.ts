import { localFiles } from '#local-files'
import { dockerIgnore } from './docker-ignore.ts'
import { type TarFile, tar } from './tar.ts'

/** The files of a directory as an archive, without those that its .dockerignore names. Only in Node. */
export async function packContext(directory: string): Promise<AsyncIterable<Uint8Array>> {
  const isIgnored = dockerIgnore((await readContextFile(directory, '.dockerignore')) ?? '')
  // A directory may be ignored and a file in it not, so directories are always read.
  const tree = await localFiles.readTree(directory, () => true)
  const files = tree.files.filter(({ below }) => !isIgnored(below))
  const entries: TarFile[] = [
    ...tree.directories
      .filter((below) => below !== '' && !isIgnored(below))
      .map((below) => ({ path: `${below}/`, mode: 0o755, sizeBytes: 0 })),
    ...files.map((file) => ({
      path: file.below,
      mode: file.mode,
      sizeBytes: file.sizeBytes,
      content: async () => (await localFiles.contentOf(file)) as AsyncIterable<Uint8Array> | Uint8Array,
    })),
  ]
  return tar(entries)
}

/** The text of a file at the top of the directory, if it is there. Only in Node. */
export async function readContextFile(directory: string, name: string): Promise<string | undefined> {
  const { files } = await localFiles.readTree(directory, (below) => below === name)
  const [file] = files
  if (file === undefined) return undefined
  const content = (await localFiles.contentOf(file)) as AsyncIterable<Uint8Array> | Uint8Array
  let text = ''
  const decoder = new TextDecoder()
  for await (const piece of content instanceof Uint8Array ? [content] : content)
    text += decoder.decode(piece, { stream: true })
  return text
}
