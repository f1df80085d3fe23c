import { randomBytes } from 'node:crypto'
import { createReadStream, type Dirent } from 'node:fs'
import {
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { DormouseError } from '../error.ts'
import type { FileContent } from '../files/files.ts'
import type { LocalFiles, LocalTree, LocalTreeFile, LocalTreeLink, ReadTree } from './local-files.ts'

const PERMISSIONS = 0o777
/** A file up to this size is sent as a whole, so that it can be sent again after a lost connection. */
const WHOLE_MAX_BYTES = 4 * 1024 ** 2

export const localFiles: LocalFiles = {
  saveFile,
  readTree,
  isDirectory,
  findFile,
  contentOf,
  makeDirectory,
  replaceFile,
  checkName,
  pathOf: join,
}

async function saveFile(path: string | URL, content: string | Uint8Array): Promise<void> {
  await writeFile(path, content)
}

/** Special files are left out. */
async function readTree(local: string, { filter, keepsLinks = false }: ReadTree): Promise<LocalTree> {
  const directories = ['']
  const files: LocalTreeFile[] = []
  const links: LocalTreeLink[] = []
  // Grows while it is read.
  for (const directory of directories) {
    const entries = await readdir(join(local, directory), { withFileTypes: true })
    for (const entry of entries.sort(byName)) {
      const below = directory === '' ? entry.name : `${directory}/${entry.name}`
      if (!entry.isDirectory() && !entry.isFile() && !entry.isSymbolicLink()) continue
      if (!filter(below)) continue
      if (entry.isDirectory()) directories.push(below)
      else if (entry.isSymbolicLink() && keepsLinks)
        links.push({ below, target: (await readlink(join(local, below))).replaceAll(sep, '/') })
      else files.push(...(await fileAt(join(local, below), below)))
    }
  }
  return { directories, files, links }
}

async function isDirectory(path: string): Promise<boolean> {
  return (await statOrNothing(path))?.isDirectory() ?? false
}

async function findFile(path: string): Promise<LocalTreeFile | undefined> {
  return (await fileAt(path, basename(path)))[0]
}

/** The content of a file for a request. */
async function contentOf({ path, sizeBytes }: LocalTreeFile): Promise<FileContent> {
  return sizeBytes <= WHOLE_MAX_BYTES ? readFile(path) : createReadStream(path)
}

/** Makes a directory below `local`; `local` itself with its parents. Throws `conflict` if it is a link or a file. */
async function makeDirectory(local: string, below: string): Promise<void> {
  const path = join(local, below)
  if (below === '') return void (await mkdir(path, { recursive: true }))
  await mkdir(path).catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error
  })
  // Writing below a link would write to another place of this machine.
  if ((await lstat(path)).isDirectory()) return
  throw new DormouseError(
    'conflict',
    `local: ${path} is not a directory, but the sandbox has one of this name`,
    {
      hint: 'Download into an empty directory.',
    },
  )
}

/** Replaces the file, or a link of that name, once all of its content is there. */
async function replaceFile(path: string, content: AsyncIterable<Uint8Array>, mode: number): Promise<void> {
  const temporary = join(dirname(path), `.dormouse-${randomBytes(8).toString('hex')}`)
  const file = await open(temporary, 'wx')
  try {
    for await (const piece of content) await file.writeFile(piece)
    await file.chmod(mode & PERMISSIONS)
    await file.close()
    await rename(temporary, path)
  } catch (error) {
    // The caller gets the first error.
    await file.close().catch(() => {})
    await rm(temporary, { force: true })
    throw error
  }
}

/** The sandbox chose the name: it must not lead out of the directory. */
function checkName(name: string): string {
  const isWindows = sep === '\\'
  const isWrong = name === '' || name === '.' || name === '..' || /[/\0]/.test(name)
  if (!isWrong && !(isWindows && /[\\:]/.test(name))) return name
  throw new DormouseError(
    'conflict',
    `remote: a file has the name ${JSON.stringify(name)}, which this machine cannot use`,
  )
}

async function fileAt(path: string, below: string): Promise<LocalTreeFile[]> {
  const found = await statOrNothing(path)
  if (found === undefined || !found.isFile()) return []
  return [{ path, below, mode: found.mode & PERMISSIONS, sizeBytes: found.size }]
}

/** Undefined for a link that leads nowhere. */
async function statOrNothing(path: string) {
  return stat(path).catch((error: unknown) => {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(String((error as { code?: unknown }).code))) return undefined
    throw error
  })
}

function byName(one: Dirent, other: Dirent): number {
  return one.name < other.name ? -1 : 1
}
