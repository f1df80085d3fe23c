import { DormouseError } from '@dormouse/contracts'
import type { RegistryAuth } from '@dormouse/contracts/http'
import { type ImageCredentials, parseImageSource } from '@dormouse/engine'
import { type Base, type Recipe, UPLOAD } from './recipe.ts'

/**
 * The logins of a build, each for one registry, so that no registry sees the password of another. A login without a
 * registry is for the only one that the build pulls from. Throws `invalid_argument` when that is not clear.
 */
export function registryLogins(recipe: Recipe, auth: RegistryAuth | undefined): readonly ImageCredentials[] {
  if (auth === undefined) return []
  const used = registriesOf(recipe)
  const logins = (Array.isArray(auth) ? auth : [auth]).flatMap((login) => {
    const registry = login.registry?.toLowerCase() ?? onlyOne(used)
    // The image is an archive: nothing asks for the password.
    return registry === undefined ? [] : [{ ...login, registry }]
  })
  for (const [at, { registry }] of logins.entries()) {
    if (!used.includes(registry))
      throw refused(`The build pulls no image from ${registry}, which a login is for.`, used)
    if (logins.findIndex((other) => other.registry === registry) < at)
      throw refused(`There are two logins for ${registry}.`, used)
  }
  return logins
}

function onlyOne(used: readonly string[]): string | undefined {
  if (used.length < 2) return used[0]
  throw refused(
    'The build pulls from several registries, and a login does not say which one it is for.',
    used,
  )
}

function registriesOf({ stages }: Recipe): readonly string[] {
  const bases: Base[] = stages.flatMap(({ base, instructions }) => [
    base,
    ...instructions.flatMap((step) => (step.type === 'copy' && step.from ? [step.from] : [])),
  ])
  const registries = bases.flatMap((base) => {
    if (base.type !== 'image' || base.image === 'scratch' || UPLOAD.test(base.image)) return []
    return parseImageSource(base.image).registry?.toLowerCase() ?? []
  })
  return [...new Set(registries)]
}

function refused(why: string, used: readonly string[]): DormouseError {
  const message = `${why} Its images come from ${used.join(', ') || 'no registry'}.`
  return new DormouseError('invalid_argument', message, {
    hint: 'Name the registry of each login: `registry`, or `--login USER@REGISTRY`.',
    details: { field: 'registryAuth' },
  })
}
