import { createHash } from 'node:crypto'
import { DormouseError, newSandboxId, type SnapshotId } from '@dormouse/contracts'
import {
  type ImageCredentials,
  type ImageSource,
  type ImportedImage,
  type ImportImage,
  type ProgramSettings,
  parseImageSource,
  type Snapshot,
} from '@dormouse/engine'
import type { Caller } from '../../access/caller.ts'
import { importModules, inSandbox, type StepParts, whileItLives } from '../run-step.ts'
import type { TemplateImage } from '../template-rows.ts'
import { type BuildContext, copyFromContext, copyFromFiles } from './copy-files.ts'
import { type Base, type Recipe, type RunSettings, shortened, UPLOAD } from './recipe.ts'
import type { RecipeRequest } from './recipe-request.ts'
import type { RegistryAccess } from './registry-access.ts'
import { registryLogins } from './registry-logins.ts'
import { type BaseFiles, type BuiltFiles, type RecipeTools, runRecipe, StepFailed } from './run-recipe.ts'
import { healthOf, startProgram } from './start-program.ts'
import type { StepCache } from './step-cache.ts'
import { listTarEntries } from './tar-entries.ts'
import type { Uploads } from './uploads.ts'

/** What builds from images and Dockerfiles need of the server. */
export interface RecipeServices {
  readonly importImage: (request: ImportImage) => Promise<ImportedImage>
  readonly recordSnapshot: (snapshot: Snapshot, owner: string) => void
  readonly dropSnapshot: (id: SnapshotId) => Promise<void>
  readonly cache: StepCache
  readonly uploads: Uploads
  /** Makes a volume of the caller unless there is one of this name. */
  readonly ensureVolume: (name: string, caller: Caller) => Promise<void>
  readonly registries: RegistryAccess
}

export interface BuildRecipe {
  readonly recipe: Recipe
  readonly request: RecipeRequest
  /** Modules to import, with whether the build fails without them. */
  readonly inherited: readonly string[]
  readonly preload: readonly string[]
  /** Where a stage on a template starts. Throws `template_not_found`. */
  readonly openTemplate: (name: string) => BaseFiles
}

export interface BuiltRecipe {
  readonly snapshotId: SnapshotId
  readonly filesId: SnapshotId
  readonly image: TemplateImage
}

/** Builds the files of a recipe, starts its program and saves everything. Throws `StepFailed` for a failed step. */
export async function buildRecipe(
  services: RecipeServices,
  parts: StepParts,
  build: BuildRecipe,
): Promise<BuiltRecipe> {
  const { caller } = parts.builder
  const tools = await makeTools(services, parts, build)
  const built = await runRecipe(parts, build.recipe, tools)
  const { filesId, snapshotId } = await startAndSave(services, parts, built, build)
  for (const id of services.cache.tidy(caller.keyId)) await services.dropSnapshot(id)
  const name = baseImage(build.recipe)
  const args = commandOf(build.request, built.settings)
  const program = args && { args, ready: build.request.ready }
  const image = { ...built.settings, ...(name !== undefined && { name }), ...(program && { program }) }
  return { snapshotId, filesId, image }
}

/** A recipe without steps on a template of the host has no files of its own yet. */
async function saveFiles(parts: StepParts, { origin }: BuiltFiles): Promise<SnapshotId> {
  return inSandbox(parts, origin, async (sandbox) => (await sandbox.finish('files')).id)
}

/** Throws `StepFailed` when the template does not start: `template debug` then shows the files that it starts on. */
async function startAndSave(
  { dropSnapshot }: RecipeServices,
  parts: StepParts,
  built: BuiltFiles,
  build: BuildRecipe,
): Promise<Pick<BuiltRecipe, 'filesId' | 'snapshotId'>> {
  const { origin } = built
  const filesId = origin.files ?? (await saveFiles(parts, built))
  try {
    const snapshotId = await warmUpImage(parts, { ...built, origin: { ...origin, files: filesId } }, build)
    return { filesId, snapshotId }
  } catch (error) {
    if (origin.files === undefined) await dropSnapshot(filesId)
    throw new StepFailed(shownStart(build.request, built.settings), built, error)
  }
}

function shownStart(request: RecipeRequest, settings: RunSettings): string {
  const isStarted = request.ready !== undefined || startsByItself(request, settings)
  const program = request.start ?? (isStarted ? [...settings.entrypoint, ...settings.cmd].join(' ') : '')
  return shortened(`START ${program}`.trim())
}

function baseImage({ stages }: Recipe): string | undefined {
  let at = stages.length - 1
  for (let stage = stages[at]; stage !== undefined; stage = stages[at]) {
    if (stage.base.type === 'image') return stage.base.image
    if (stage.base.type === 'template') return undefined
    at = stage.base.stage
  }
  return undefined
}

async function warmUpImage(parts: StepParts, built: BuiltFiles, build: BuildRecipe): Promise<SnapshotId> {
  const { origin, settings } = built
  const { inherited, preload, request } = build
  parts.log.say('==> starting it once')
  return inSandbox(parts, { ...origin, image: programSettings(settings) }, async (sandbox, burrow) => {
    await whileItLives(sandbox, burrow, async () => {
      await importModules(parts, burrow, { inherited, preload })
      const args = commandOf(request, settings)
      if (args === undefined) return
      if (request.start === undefined && request.ready === undefined) parts.log.say(BY_HEALTHCHECK)
      await startProgram(parts, burrow, { args, settings, ready: request.ready })
    })
    return (await sandbox.finish('full')).id
  })
}

function commandOf(request: RecipeRequest, settings: RunSettings): readonly string[] | undefined {
  const { start, ready } = request
  if (start !== undefined) return ['/bin/sh', '-c', start]
  const command = [...settings.entrypoint, ...settings.cmd]
  if (ready === undefined)
    return startsByItself(request, settings) && command.length > 0 ? command : undefined
  if (command.length > 0) return command
  throw new DormouseError(
    'setup_failed',
    'There is nothing to start: neither `start` nor a command of the image.',
  )
}

const BY_HEALTHCHECK =
  '    its HEALTHCHECK says when its command is ready; `HEALTHCHECK NONE` in a Dockerfile leaves both out'

/** An image with a health check is a service: it says what to start and when that is ready. */
function startsByItself({ startsServices = true }: RecipeRequest, settings: RunSettings): boolean {
  return startsServices && healthOf(settings) !== undefined
}

async function makeTools(
  services: RecipeServices,
  parts: StepParts,
  build: BuildRecipe,
): Promise<RecipeTools> {
  const { cache, uploads } = services
  const { caller } = parts.builder
  const { keyId } = caller
  const images = new Map<string, BaseFiles>()
  const logins = registryLogins(build.recipe, build.request.registryAuth)
  const contexts = new Map<string, BuildContext>()
  const openUpload = async (id: string) => {
    const known = contexts.get(id) ?? (await openContext(uploads, id, caller))
    contexts.set(id, known)
    return known
  }
  const context = build.request.context && (await openUpload(build.request.context))
  return {
    cache: {
      find: (key) => cache.find(keyId, key),
      put: async (key, id) => {
        const former = cache.find(keyId, key)
        cache.put(keyId, key, id)
        if (former !== undefined) await services.dropSnapshot(former)
      },
    },
    openBase: async (base: Exclude<Base, { type: 'stage' }>) => {
      if (base.type === 'template') return build.openTemplate(base.template)
      const known =
        images.get(base.image) ?? (await openImage(services, parts, { image: base.image, logins }))
      images.set(base.image, known)
      return known
    },
    fromContext: async (copy) =>
      copyFromContext(
        copy.context === undefined ? context || undefined : await openUpload(copy.context),
        copy,
      ),
    fromFiles: (files) => copyFromFiles(files),
    volumeFor: async (cacheId) => {
      const name = `build-cache-${createHash('sha256').update(cacheId).digest('hex').slice(0, 12)}`
      await services.ensureVolume(name, caller)
      return name
    },
  }
}

async function openContext(uploads: Uploads, id: string, caller: Caller): Promise<BuildContext> {
  const archive = await uploads.find(id, caller)
  return { archive, entries: await listTarEntries(archive) }
}

async function openImage(
  { importImage, recordSnapshot, dropSnapshot, cache, uploads, registries }: RecipeServices,
  { builder, log, signal }: StepParts,
  { image, logins }: { image: string; logins: readonly ImageCredentials[] },
): Promise<BaseFiles> {
  const { caller, limits } = builder
  const upload = UPLOAD.exec(image)?.groups?.['id']
  const name = upload === undefined ? image : await archiveName(await uploads.find(upload, caller))
  if (upload === undefined && image !== 'scratch') await registries.require(parseImageSource(image), caller)
  log.say(`==> importing ${image}`)
  const began = performance.now()
  const imported = importImage({
    image: name,
    credentials: logins,
    registriesConf: registries.registriesConf,
    network: await registries.networkFor(caller),
    sandboxId: newSandboxId(),
    maxBytes: limits.diskBytes,
    maxFiles: limits.files,
    onLine: (line) => log.say(`    ${line.replaceAll(name, image)}`),
    signal,
  })
  const { snapshot, image: described } = await imported.catch((error: unknown) => {
    if (upload === undefined || !(error instanceof DormouseError)) throw error
    // Where uploads are on this host is none of the caller's business.
    throw new DormouseError(error.code, error.message.replaceAll(name, image), { cause: error })
  })
  recordSnapshot(snapshot, caller.keyId)
  const key = createHash('sha256')
    .update(JSON.stringify(['image', described.digest]))
    .digest('hex')
  const former = cache.find(caller.keyId, key)
  cache.put(caller.keyId, key, snapshot.id)
  if (former !== undefined) await dropSnapshot(former)
  log.say(`    imported in ${((performance.now() - began) / 1000).toFixed(1)} s`)
  const { name: _name, digest: _digest, ...settings } = described
  return { origin: { template: snapshot.template, files: snapshot.id }, key, settings }
}

/** What `docker save` writes has a manifest.json; other archives are OCI layouts. */
async function archiveName(path: string): Promise<string> {
  const names = (await listTarEntries(path)).map((entry) => entry.path)
  const transport: ImageSource['transport'] = names.includes('manifest.json')
    ? 'docker-archive'
    : 'oci-archive'
  return `${transport}:${path}`
}

export function programSettings({ user, env, cwd }: RunSettings): ProgramSettings {
  return { user, env, cwd }
}
