import { existsSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isLayerId, type SnapshotId } from '@dormouse/contracts'
import type { PartCheck, StoredPart } from '@dormouse/engine'
import { isArriving } from '../arrival/arriving-files.ts'
import { type Layout, type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { listTemplates, readTemplate, type Template, templateDirectory } from '../template/template-store.ts'
import { generationPaths } from './generation.ts'
import { checkTree, layerTree, type SealedTree, templateTree } from './layer-sums.ts'
import type { Manifest } from './manifest.ts'
import { readManifest } from './manifest.ts'
import { type ScrubReading, sumFiles } from './scrub-program.ts'
import { type ExpectedFile, listFiles } from './verify-snapshot.ts'

/** Something on disk that is checked as one, with the expected checksums. */
export interface LinuxPart extends StoredPart {
  readonly files?: readonly ExpectedFile[]
  readonly tree?: SealedTree
  /** What the part is, for error messages. */
  readonly what: string
}

/** Snapshots and templates that share a part share its entry. */
class Parts {
  readonly #all = new Map<string, LinuxPart & { snapshots: SnapshotId[]; templates: string[] }>()

  add(part: Omit<LinuxPart, 'snapshots' | 'templates'>, user: User): void {
    const known = this.#all.get(part.key) ?? { ...part, snapshots: [], templates: [] }
    this.#all.set(part.key, known)
    if (user.snapshot !== undefined) known.snapshots.push(user.snapshot)
    if (user.template !== undefined) known.templates.push(user.template)
  }

  get list(): LinuxPart[] {
    return [...this.#all.values()]
  }
}

interface User {
  readonly snapshot?: SnapshotId
  readonly template?: string
}

/** All parts of these snapshots: images, memory files, layers. A part that several share is listed once. */
export function partsOfSnapshots(layout: Layout, manifests: readonly Manifest[]): LinuxPart[] {
  const parts = new Parts()
  for (const manifest of manifests) addSnapshotParts(parts, layout, manifest)
  return parts.list
}

/** All parts that are stored: of snapshots, of the root file systems of templates, and of template snapshots. */
export async function allParts(
  layout: Layout,
  dataDir: string,
  manifests: readonly Manifest[],
): Promise<LinuxPart[]> {
  const parts = new Parts()
  for (const manifest of manifests) addSnapshotParts(parts, layout, manifest)
  // Templates come last: they are large, and seldom new.
  for (const template of await listTemplates(dataDir)) await addTemplateParts(parts, layout, template)
  for (const manifest of manifests) {
    const { name, hash } = manifest.template
    // A snapshot may use a build that is not the current one.
    const build = await readTemplate(join(templateDirectory(dataDir, name), hash))
    if (build !== undefined) addRootfs(parts, layout, build, { snapshot: manifest.id })
  }
  return parts.list
}

function addSnapshotParts(parts: Parts, layout: Layout, manifest: Manifest): void {
  const paths = generationPaths(layout.snapshot(manifest.id).dir, manifest.generation)
  const generation = `${manifest.id}/${manifest.generation ?? 0}`
  addManifestParts(parts, layout, { manifest, paths, key: `images:${generation}` }, { snapshot: manifest.id })
}

async function addTemplateParts(parts: Parts, layout: Layout, template: Template): Promise<void> {
  const user = { template: template.name }
  addRootfs(parts, layout, template, user)
  const parent = join(dirname(template.rootfs), 'snapshots')
  // Missing until the first snapshot of the template is made.
  for (const name of await readdir(parent).catch(() => [])) {
    const paths = snapshotPaths(join(parent, name))
    // Unfinished, or damaged: a create that finds it damaged reports it.
    const manifest = await readManifest(paths.manifest).catch(() => undefined)
    if (manifest === undefined) continue
    addManifestParts(parts, layout, { manifest, paths, key: `images:${template.hash}/${name}` }, user)
  }
}

function addRootfs(parts: Parts, layout: Layout, template: Template, user: User): void {
  const tree = templateTree(layout, template)
  const what = `the root file system of template ${template.name}`
  parts.add({ key: `template:${template.name}/${template.hash}`, kind: 'template', tree, what }, user)
}

interface Described {
  readonly manifest: Manifest
  readonly paths: SnapshotPaths
  readonly key: string
}

function addManifestParts(parts: Parts, layout: Layout, { manifest, paths, key }: Described, user: User) {
  for (const layer of manifest.layers.filter(isLayerId)) {
    const what = `its file layer ${layer}`
    parts.add({ key: `layer:${layer}`, kind: 'layer', tree: layerTree(layout, layer), what }, user)
  }
  if (manifest.kind === 'files') return
  const files = listFiles(paths, manifest)
  const images = files.filter(({ path }) => dirname(path) !== paths.memory)
  parts.add({ key, kind: 'images', files: images, what: 'its images' }, user)
  const memory = files.filter(({ path }) => dirname(path) === paths.memory && !isArriving(paths.dir, path))
  for (const file of memory) {
    // Memory files are shared by hard links: the inode identifies the file, the checksum its content.
    const inode = statSync(file.path, { throwIfNoEntry: false })?.ino ?? file.path
    parts.add(
      { key: `memory:${inode}:${file.checksum}`, kind: 'memory', files: [file], what: file.what },
      user,
    )
  }
}

/** Whether two entries of one part refer to the same files. */
export function isSamePlace(one: LinuxPart, other: LinuxPart): boolean {
  const pathsOf = ({ tree, files = [] }: LinuxPart) => [tree?.root, ...files.map(({ path }) => path)]
  const [paths, others] = [pathsOf(one), pathsOf(other)]
  return paths.length === others.length && paths.every((path, index) => path === others[index])
}

/** Reads a part from the disk. `damage` says in words what is wrong. */
export async function checkPart(part: LinuxPart, reading: ScrubReading): Promise<PartCheck> {
  const { tree, files = [], what } = part
  if (tree !== undefined) {
    if (!existsSync(tree.root)) return { readBytes: 0, damage: `${what} is missing` }
    const { readBytes, damage } = await checkTree(tree, reading)
    return { readBytes, ...(damage !== undefined && { damage: `${what} is damaged: ${damage}` }) }
  }
  const found = await sumFiles(
    files.map(({ path }) => path),
    reading,
  )
  const { readBytes } = found
  for (const [index, file] of files.entries()) {
    const now = found.files[index]
    if (now === undefined || 'error' in now)
      return { readBytes, damage: `${file.what} cannot be read: ${now?.error}` }
    if (now.sizeBytes !== file.sizeBytes)
      return { readBytes, damage: `${file.what} has ${now.sizeBytes} bytes instead of ${file.sizeBytes}` }
    if (now.checksum !== file.checksum) return { readBytes, damage: `${file.what} is damaged` }
  }
  return { readBytes }
}
