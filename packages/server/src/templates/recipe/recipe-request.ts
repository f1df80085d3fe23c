import type { RegistryAuth, TemplateReady, TemplateStep } from '@dormouse/contracts/http'
import { parseImageSource } from '@dormouse/engine'
import { asWord } from './dockerfile-text.ts'
import { parseDockerfile } from './parse-dockerfile.ts'
import { type Base, type Instruction, type Recipe, shortened, UPLOAD } from './recipe.ts'
import { registryLogins } from './registry-logins.ts'

/** A build from an image, a Dockerfile or steps, as a caller asked for it. */
export interface RecipeRequest {
  readonly image?: string | undefined
  readonly registryAuth?: RegistryAuth | undefined
  readonly dockerfile?: string | undefined
  readonly context?: string | undefined
  readonly buildArgs?: Readonly<Record<string, string>> | undefined
  readonly target?: string | undefined
  readonly steps?: readonly TemplateStep[] | undefined
  readonly start?: string | undefined
  readonly ready?: TemplateReady | undefined
  /** Whether the command of an image with a health check is started without `start` and `ready`. Default: true. */
  readonly startsServices?: boolean | undefined
}

export interface Installed {
  readonly packages: readonly string[]
  readonly pip: readonly string[]
  readonly commands: readonly string[]
}

/**
 * Makes the recipe of a request; `base` is the template to build on when it names neither image nor Dockerfile. Throws
 * `invalid_argument`, also for a name that is none of an image and a login that may be for several registries.
 */
export function readRecipe(request: RecipeRequest, base: string | undefined, installed: Installed): Recipe {
  const recipe = readStages(request, base, installed)
  for (const { base } of recipe.stages)
    if (base.type === 'image' && base.image !== 'scratch' && !UPLOAD.test(base.image))
      parseImageSource(base.image)
  registryLogins(recipe, request.registryAuth)
  return recipe
}

function readStages(request: RecipeRequest, base: string | undefined, installed: Installed): Recipe {
  const { image, dockerfile, buildArgs, target, steps = [] } = request
  const more = [...installing(installed), ...steps.map(readStep)]
  if (dockerfile === undefined) {
    const from: Base =
      image === undefined ? { type: 'template', template: base ?? '' } : { type: 'image', image }
    return { stages: [{ base: from, instructions: more }] }
  }
  const { stages } = parseDockerfile(dockerfile, { buildArgs, target })
  return {
    stages: stages.map((stage, at) =>
      at === stages.length - 1 ? { ...stage, instructions: [...stage.instructions, ...more] } : stage,
    ),
  }
}

/** Whether a request needs more than the packages and commands of a description. */
export function isRecipe(request: RecipeRequest): boolean {
  const { image, dockerfile, steps, start, ready } = request
  return [image, dockerfile, steps, start, ready].some((value) => value !== undefined)
}

const APT =
  'export DEBIAN_FRONTEND=noninteractive; apt-get update && apt-get install --yes --no-install-recommends --'

function installing({ packages, pip, commands }: Installed): Instruction[] {
  const scripts = [
    ...(packages.length === 0 ? [] : [`${APT} ${packages.map(quote).join(' ')}`]),
    ...(pip.length === 0 ? [] : [`pip install --no-cache-dir -- ${pip.map(quote).join(' ')}`]),
    ...commands,
  ]
  return scripts.map(run)
}

function readStep(step: TemplateStep): Instruction {
  if ('run' in step) return run(step.run)
  if ('env' in step)
    return { type: 'env', shown: `ENV ${Object.keys(step.env).join(' ')}`, values: asWords(step.env) }
  if ('workdir' in step)
    return { type: 'workdir', shown: `WORKDIR ${step.workdir}`, path: asWord(step.workdir) }
  if ('user' in step) return { type: 'user', shown: `USER ${step.user}`, user: asWord(step.user) }
  if ('shell' in step) return { type: 'shell', shown: `SHELL ${step.shell.join(' ')}`, args: step.shell }
  if ('fresh' in step) return { type: 'fresh', shown: 'without the cache' }
  return {
    type: 'copy',
    shown: `COPY ${[...step.copy, step.to].join(' ')}`,
    sources: step.copy.map(asWord),
    to: asWord(step.to),
    unpacks: false,
    ...(step.context !== undefined && { context: step.context }),
    ...(step.chown !== undefined && { chown: asWord(step.chown) }),
    ...(step.chmod !== undefined && { chmod: step.chmod }),
  }
}

function run(script: string): Instruction {
  return { type: 'run', shown: shortened(`RUN ${script.trim()}`), command: { script }, caches: [] }
}

/** Steps of the API have values, not Dockerfile text: a dollar is a dollar. */
function asWords(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, asWord(value)]))
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
