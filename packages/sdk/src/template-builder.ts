import { invalidArgument } from './check.ts'
import type { CreateTemplateBody, TemplateAnswer } from './contract/index.ts'

type Step = NonNullable<CreateTemplateBody['steps']>[number]
type Ready = NonNullable<CreateTemplateBody['ready']>

export interface CopyOptions {
  /** `web`, `1000` or `web:web`; root by default. */
  readonly chown?: string
  /** Octal: `755`. */
  readonly chmod?: string
}

type Fields = Omit<CreateTemplateBody, 'name'>

/**
 * Describes a template step by step. Every method returns a new builder, so a common beginning can be used for several
 * templates. `client.templates.build` builds it.
 */
export class TemplateBuilder {
  readonly #fields: Fields
  /** Of an image on this machine: an archive, or the directory of an OCI layout. `build` sends it. */
  readonly archive: string | undefined

  constructor(fields: Fields, archive?: string) {
    this.#fields = fields
    this.archive = archive
  }

  /** Runs a command with `/bin/sh -c`, with the user and directory that earlier steps chose. */
  run(command: string): TemplateBuilder {
    return this.#step({ run: command })
  }

  /** Copies files of the context, the directory that `build` gets. A directory copies what is in it. */
  copy(sources: string | readonly string[], to: string, options: CopyOptions = {}): TemplateBuilder {
    return this.#step({ copy: typeof sources === 'string' ? [sources] : [...sources], to, ...options })
  }

  env(values: Readonly<Record<string, string>>): TemplateBuilder {
    return this.#step({ env: { ...values } })
  }

  workdir(path: string): TemplateBuilder {
    return this.#step({ workdir: path })
  }

  user(user: string): TemplateBuilder {
    return this.#step({ user })
  }

  /** The program that `run` steps after this one get their command with: `['/bin/bash', '-c']`. */
  shell(args: readonly string[]): TemplateBuilder {
    return this.#step({ shell: [...args] })
  }

  /** Runs the steps after this one again, even if their results are cached. */
  fresh(): TemplateBuilder {
    return this.#step({ fresh: true })
  }

  /** Starts a command once. Its processes run in every sandbox of the template. */
  start(command: string): TemplateBuilder {
    return this.#with({ start: command })
  }

  /** When the started command is ready: it listens at a port, prints a text, or a command succeeds. */
  ready(when: number | Ready): TemplateBuilder {
    return this.#with({ ready: typeof when === 'number' ? { port: when } : when })
  }

  /**
   * For a registry that asks for a password. Name the registry if the build pulls from several; only that one gets the
   * password. The server does not keep it.
   */
  login(username: string, password: string, registry?: string): TemplateBuilder {
    const { registryAuth = [] } = this.#fields
    const login = { username, password, ...(registry !== undefined && { registry }) }
    const before = Array.isArray(registryAuth) ? registryAuth : [registryAuth]
    return this.#with({ registryAuth: [...before, login] })
  }

  /** The stage of a Dockerfile to build. Default: the last. */
  target(stage: string): TemplateBuilder {
    return this.#with({ target: stage })
  }

  /** Values for `ARG` of a Dockerfile. */
  args(values: Readonly<Record<string, string>>): TemplateBuilder {
    return this.#with({ buildArgs: { ...this.#fields.buildArgs, ...values } })
  }

  /** What the build may reach. Default: only package registries. */
  network(policy: NonNullable<CreateTemplateBody['network']>): TemplateBuilder {
    return this.#with({ network: policy })
  }

  /** The default for sandboxes of the template. */
  isolation(kind: NonNullable<CreateTemplateBody['isolation']>): TemplateBuilder {
    return new TemplateBuilder({ ...this.#fields, isolation: kind })
  }

  describe(description: string): TemplateBuilder {
    return this.#with({ description })
  }

  /** The request, for `client.templates.create`. An image on this machine needs the id of its upload. */
  request(name: string, upload?: string): CreateTemplateBody {
    if (this.archive === undefined) return { name, ...this.#fields }
    if (upload === undefined)
      throw invalidArgument('upload', 'is missing: the image is on this machine', upload, 'Use `build`.')
    return { name, ...this.#fields, image: `upload:${upload}` }
  }

  /** Whether the build needs files of the context. */
  get needsContext(): boolean {
    const { steps = [], dockerfile } = this.#fields
    return dockerfile !== undefined || steps.some((step) => 'copy' in step)
  }

  #step(step: Step): TemplateBuilder {
    return this.#with({ steps: [...(this.#fields.steps ?? []), step] })
  }

  #with(fields: Fields): TemplateBuilder {
    return new TemplateBuilder({ ...this.#fields, ...fields }, this.archive)
  }
}

/** What sandboxes are made from, as the server describes it. */
export type Template = TemplateAnswer

/** Begins the description of a template. */
export const Template = {
  /** On a container image: `python:3.13`, `registry.example.com/team/web:2`. */
  from: (image: string): TemplateBuilder => new TemplateBuilder({ image }),
  /**
   * On an image on this machine: an archive (`docker save`, or OCI) or the directory of an OCI layout. `build` sends
   * it. Only in Node.
   */
  fromArchive: (path: string): TemplateBuilder => new TemplateBuilder({}, path),
  /** On another template. */
  fromTemplate: (name: string): TemplateBuilder => new TemplateBuilder({ from: name }),
  /** On the text of a Dockerfile. */
  fromDockerfile: (dockerfile: string): TemplateBuilder => new TemplateBuilder({ dockerfile }),
}
