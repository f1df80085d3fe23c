import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { CreateTemplate } from 'dormouse'
import { packContext } from 'dormouse'
import type { Call } from './call.ts'
import { UsageError } from './cli-error.ts'
import { readHidden } from './read-hidden.ts'
import { type ReadyFlags, readyOf } from './ready-flags.ts'

export interface RecipeFlags extends ReadyFlags {
  readonly image?: string
  readonly dockerfile?: string
  readonly context?: string
  readonly buildArg?: string[]
  readonly target?: string
  readonly login?: string[]
  readonly start?: string
}

/** The part of a template that an image or a Dockerfile describes. Uploads the files that it needs. */
export async function recipeOf(call: Call, flags: RecipeFlags): Promise<Partial<CreateTemplate>> {
  const { image, dockerfile, start, target } = flags
  const ready = readyOf(flags)
  return {
    ...(image !== undefined && { image: await imageOf(call, image) }),
    ...(dockerfile !== undefined && (await dockerfileOf(call, dockerfile, flags.context))),
    ...(flags.buildArg !== undefined && { buildArgs: readArguments(flags.buildArg) }),
    ...(target !== undefined && { target }),
    ...(flags.login !== undefined && { registryAuth: await readLogins(call, flags.login) }),
    ...(start !== undefined && { start }),
    ...(ready !== undefined && { ready }),
  }
}

/** An archive or an OCI layout of this machine is uploaded; everything else is a name that the server knows. */
export async function imageOf(call: Call, image: string): Promise<string> {
  if (!isImagePath(image)) return image
  const found = await stat(image).catch(notAnImage(image))
  if (found.isDirectory()) await stat(join(image, 'oci-layout')).catch(notAnImage(image))
  const { client, signal } = call
  const archive = found.isDirectory()
    ? await packContext(image, { followsLinks: true })
    : createReadStream(image)
  const upload = client.templates.upload(archive, { signal })
  const { id } = await call.withProgress(`Uploading ${image}`, upload)
  return `upload:${id}`
}

/** Names of images look like relative paths, so a path has the ending of an archive or begins as a path. */
export function isImagePath(image: string): boolean {
  return /^\.{0,2}\/|\.(tar|tar\.gz|tgz|oci)$/.test(image) && !/^[a-z-]+:/.test(image)
}

async function dockerfileOf(
  call: Call,
  path: string,
  context: string | undefined,
): Promise<Pick<CreateTemplate, 'dockerfile' | 'context'>> {
  const isDirectory = (await stat(path).catch(notThere(path))).isDirectory()
  const file = isDirectory ? join(path, 'Dockerfile') : path
  const dockerfile = await readFile(file, 'utf8').catch(notThere(file))
  const directory = context ?? (isDirectory ? path : dirname(path))
  const archive = await packContext(directory)
  const { client, signal } = call
  const upload = client.templates.upload(archive, { signal })
  const { id } = await call.withProgress(`Uploading ${directory}`, upload)
  return { dockerfile, context: id }
}

function notAnImage(path: string): () => never {
  return () => {
    throw new UsageError(
      `${path} is no image of this machine`,
      'Name an archive (`docker save`, or OCI) or the directory of an OCI layout. For a registry, write `docker://NAME`.',
    )
  }
}

function notThere(path: string): () => never {
  return () => {
    throw new UsageError(`${path} cannot be read`, 'Name a Dockerfile, or the directory that has one.')
  }
}

export function readArguments(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf('=')
      if (at < 1) throw new UsageError(`--build-arg ${text} is not NAME=VALUE`)
      return [text.slice(0, at), text.slice(at + 1)]
    }),
  )
}

type Login = { username: string; password: string; registry?: string }

/** Logins of `--login USER` and `--login USER@REGISTRY`. A user may have an @, too. */
export async function readLogins({ io }: Call, given: readonly string[]): Promise<Login | Login[]> {
  const passwords = io.env['DORMOUSE_REGISTRY_PASSWORD']?.split('\n') ?? []
  const logins: Login[] = []
  for (const [index, text] of given.entries()) {
    const at = text.lastIndexOf('@')
    const named =
      at === -1 ? { username: text } : { username: text.slice(0, at), registry: text.slice(at + 1) }
    if (named.username === '' || named.registry === '')
      throw new UsageError(`--login ${text} is not USER or USER@REGISTRY`)
    const password =
      passwords[index]?.trim() || (io.stdin.isTTY ? await readHidden(io, `Password of ${text}: `) : '')
    if (!password)
      throw new UsageError(
        `--login ${text} needs a password`,
        'Put it into the variable DORMOUSE_REGISTRY_PASSWORD; for several logins, one password a line.',
      )
    logins.push({ ...named, password })
  }
  const [first, ...others] = logins
  return first !== undefined && others.length === 0 ? first : logins
}
