import type { TemplateStep } from '@dormouse/contracts/http'
import { ApiError } from '../http/api-error.ts'
import type { StepBody } from './build-body.ts'

/** Commands of E2B's builds run in a login shell. */
export const LOGIN_SHELL = ['/bin/bash', '-l', '-c']
export const DEFAULT_USER = 'user'

export interface Translated {
  readonly steps: readonly TemplateStep[]
  /** For each of them that runs in a sandbox: the step of the client, counted from 1; 0 is the base. */
  readonly origins: readonly number[]
  /** The user after the last step. */
  readonly user: string
}

export interface TranslateOptions {
  /** The user that the first step starts with. */
  readonly user: string
  /** Run before the client's steps. */
  readonly before: readonly TemplateStep[]
  readonly isForced: boolean
  /** The upload with this hash. Throws when there is none. */
  readonly uploadOf: (filesHash: string) => string
}

/** Turns the steps of a client into ours. Throws `ApiError` 400 that names the step. */
export function translateSteps(given: readonly StepBody[], options: TranslateOptions): Translated {
  const translation = new Translation(options)
  for (const [index, step] of given.entries()) translation.take(step, index + 1)
  return translation
}

interface GivenStep {
  readonly step: StepBody
  readonly args: readonly string[]
  /** Counted from 1. */
  readonly at: number
}

class Translation implements Translated {
  readonly steps: TemplateStep[] = []
  readonly origins: number[] = []
  readonly #options: TranslateOptions
  readonly #types: Readonly<Record<string, (given: GivenStep) => void>> = {
    RUN: ({ args: [command = '', user = ''], at }) =>
      this.#add(at, ...this.#as(user || this.user, { run: required(command, at) })),
    ENV: ({ args, at }) => this.#add(at, { env: pairs(args, at) }),
    USER: ({ args: [user = ''], at }) => {
      this.user = required(user, at)
      this.#add(at, { user: this.user })
    },
    WORKDIR: ({ args: [path = ''], at }) => this.#workdir(required(path, at), at),
    COPY: ({ step, at }) => this.#add(at, this.#copy(step, at)),
  }
  user: string

  constructor(options: TranslateOptions) {
    this.#options = options
    this.user = options.user
    if (options.isForced) this.#add(0, { fresh: true })
    this.#add(0, ...options.before)
    this.#add(0, { shell: LOGIN_SHELL })
  }

  take(step: StepBody, at: number): void {
    if (step.force === true && !this.steps.some((one) => 'fresh' in one)) this.#add(at, { fresh: true })
    const args = step.args ?? []
    const translate = this.#types[step.type.toUpperCase()]
    if (translate === undefined)
      throw new ApiError(400, `steps.${at - 1}: '${step.type}' is not a type of step here`)
    translate({ step, args, at })
  }

  /** The directory belongs to the user if it does not exist yet: the next command wants to write there. */
  #workdir(path: string, at: number): void {
    const make = `test -d ${quote(path)} || { mkdir -p ${quote(path)} && chown ${quote(`${this.user}:`)} ${quote(path)}; }`
    if (this.user !== 'root') this.#add(at, ...this.#as('root', { run: make }))
    this.#add(at, { workdir: path })
  }

  #copy({ args, filesHash }: StepBody, at: number): TemplateStep {
    const [from = '', to = '', owner = '', mode = ''] = args ?? []
    if (filesHash == null) throw new ApiError(400, `steps.${at - 1}: filesHash is missing`)
    if (mode !== '' && !/^[0-7]{3,4}$/.test(mode))
      throw new ApiError(400, `steps.${at - 1}: '${mode}' is not an octal mode`)
    return {
      copy: [required(from, at)],
      to: to === '' ? '.' : to,
      chown: owner === '' ? this.user : owner,
      ...(mode !== '' && { chmod: mode }),
      context: this.#options.uploadOf(filesHash),
    }
  }

  #as(user: string, step: TemplateStep): TemplateStep[] {
    return user === this.user ? [step] : [{ user }, step, { user: this.user }]
  }

  #add(at: number, ...steps: readonly TemplateStep[]): void {
    for (const step of steps) {
      this.steps.push(step)
      if ('run' in step || 'copy' in step) this.origins.push(at)
    }
  }
}

function required(argument: string, at: number): string {
  if (argument !== '') return argument
  throw new ApiError(400, `steps.${at - 1}: an argument is missing`)
}

function pairs(args: readonly string[], at: number): Record<string, string> {
  if (args.length === 0 || args.length % 2 !== 0)
    throw new ApiError(400, `steps.${at - 1}: must have names and values in turn`)
  const entries: [string, string][] = []
  for (let index = 0; index < args.length; index += 2)
    entries.push([args[index] ?? '', args[index + 1] ?? ''])
  return Object.fromEntries(entries)
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
