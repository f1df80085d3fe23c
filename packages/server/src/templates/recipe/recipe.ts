/** What a build does: stages, each with a base and instructions, as a Dockerfile has them. */
export interface Recipe {
  /** The last one is the template. */
  readonly stages: readonly Stage[]
}

export interface Stage {
  readonly name?: string
  readonly base: Base
  readonly instructions: readonly Instruction[]
}

export type Base =
  | { readonly type: 'image'; readonly image: string }
  | { readonly type: 'template'; readonly template: string }
  | { readonly type: 'stage'; readonly stage: number }

/** Runs in a shell, or is a program with its arguments. */
export type Command = { readonly script: string } | { readonly args: readonly string[] }

export interface CacheMount {
  readonly id: string
  /** Absolute, or below the working directory. */
  readonly target: string
  /** Of the directory. Default: root, and mode 755. */
  readonly uid?: number | undefined
  readonly gid?: number | undefined
  readonly mode?: number | undefined
}

/** Texts are words of a Dockerfile, whose variables are replaced when it is built; commands are for a shell. */
export type Instruction = {
  /** As the log and errors show it. */
  readonly shown: string
} & (
  | { readonly type: 'run'; readonly command: Command; readonly caches: readonly CacheMount[] }
  | ({ readonly type: 'copy' } & Copy)
  | { readonly type: 'env'; readonly values: Readonly<Record<string, string>> }
  | { readonly type: 'arg'; readonly name: string; readonly value: string | undefined }
  | { readonly type: 'workdir'; readonly path: string }
  | { readonly type: 'user'; readonly user: string }
  | { readonly type: 'entrypoint'; readonly command: Command }
  | { readonly type: 'cmd'; readonly command: Command }
  | { readonly type: 'shell'; readonly args: readonly string[] }
  | { readonly type: 'fresh' }
  | { readonly type: 'healthcheck'; readonly command: Command | undefined }
)

export interface Copy {
  readonly sources: readonly string[]
  readonly to: string
  /** Another stage or image; the context by default. */
  readonly from?: Base
  /** The upload with the files; the context of the build by default. */
  readonly context?: string
  readonly chown?: string
  readonly chmod?: string
  /** Unpacks archives among the sources, as ADD does. */
  readonly unpacks: boolean
}

/** The name of an image that a client has sent. */
export const UPLOAD = /^upload:(?<id>up-[2-9a-km-np-z]{16})$/

/** How programs of an image run. */
export interface RunSettings {
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly user: string
  readonly entrypoint: readonly string[]
  readonly cmd: readonly string[]
  readonly healthcheck?: readonly string[] | undefined
  /** What commands that are text run in. */
  readonly shell?: readonly string[] | undefined
}

export const DEFAULT_SHELL = ['/bin/sh', '-c']

export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Of a base that says nothing about itself. */
export const PLAIN_SETTINGS: RunSettings = { env: {}, cwd: '/', user: 'root', entrypoint: [], cmd: [] }

const SHOWN_MAX_CHARACTERS = 120

/** The first line of a step, as the log and errors show it. */
export function shortened(step: string): string {
  const line = step.split('\n')[0] ?? ''
  return line.length <= SHOWN_MAX_CHARACTERS ? line : `${line.slice(0, SHOWN_MAX_CHARACTERS - 1)}…`
}

/** Of a template whose build said nothing about its programs. */
export const TEMPLATE_SETTINGS: RunSettings = { ...PLAIN_SETTINGS, cwd: '/root' }
