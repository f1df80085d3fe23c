import { setTimeout as sleep } from 'node:timers/promises'
import { hasErrorCode } from '@dormouse/contracts'
import type { TemplateAnswer, TemplateStep } from '@dormouse/contracts/http'
import type { BackendTemplates, Caller } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'

/** The template that E2B's own names stand for. It is built on the default template and belongs to the key. */
const E2B_TEMPLATE = 'e2b'

/** Names of E2B's own templates. */
const OWN_NAMES = new Set(['base', 'code-interpreter-v1', 'code-interpreter'])

const POLL_MS = 100
const BUILD_MAX_MS = 10 * 60_000

/** `sudo` runs with the Python of the template, or with our own in an image. */
const SUDO = '#!/bin/sh\\nexec %s -I -S /.dormouse/guest/dormouse_sudo.py "$@"\\n'
const makeSudo = (python: string) =>
  `mkdir -p /usr/local/bin && printf '${SUDO}' ${python} > /usr/local/bin/sudo && chmod 755 /usr/local/bin/sudo`

/** Adds the user `user`: code runs as this user, who may use `sudo` without a password. */
const COMMANDS = [
  'id user >/dev/null 2>&1 || useradd --create-home --shell /bin/bash --uid 1000 --user-group user',
  makeSudo('/usr/bin/python3'),
  'mkdir -p /etc/dormouse && echo user > /etc/dormouse/default-user',
  'mkdir -p /code && chown user:user /code && chmod 777 /usr/local',
  // Contexts of clients may have this directory.
  'chmod 755 /root',
]

/** The first plot of a user without the list of fonts takes seconds. */
const MAKE_FONT_LIST =
  "HOME=/home/user setpriv --reuid=user --regid=user --init-groups python3 -c 'import matplotlib.pyplot'"
/** Has JavaScript, as E2B's own template has. */
const PREFERRED_BASE = 'node'

/** The same on an image, which may have neither `useradd` nor a user id that is free. */
export function imageUserSteps(): TemplateStep[] {
  const addUser =
    'id user >/dev/null 2>&1 || useradd --create-home --shell /bin/bash --user-group user || adduser -D -s /bin/bash user'
  const rest = [makeSudo('/.dormouse/runtime/bin/python3'), ...COMMANDS.slice(2)]
  return [{ user: 'root' }, { run: [addUser, ...rest].join('\n') }]
}

/** Builds the template of E2B's names when a key first needs it. */
export class OwnTemplate {
  readonly #templates: BackendTemplates
  readonly #building = new Map<string, Promise<void>>()
  readonly #ready = new Set<string>()

  constructor(templates: BackendTemplates) {
    this.#templates = templates
  }

  get name(): string {
    return E2B_TEMPLATE
  }

  isOwn(name: string): boolean {
    return OWN_NAMES.has(name)
  }

  /** Resolves when sandboxes can be created from it. All callers with one key share one build. */
  async ensure(caller: Caller): Promise<string> {
    const { keyId } = caller
    if (this.#ready.has(keyId)) return E2B_TEMPLATE
    const running =
      this.#building.get(keyId) ?? this.#build(caller).finally(() => this.#building.delete(keyId))
    this.#building.set(keyId, running)
    await running
    this.#ready.add(keyId)
    return E2B_TEMPLATE
  }

  /** The template may have been deleted since it was last used. */
  forget({ keyId }: Caller): void {
    this.#ready.delete(keyId)
  }

  async #build(caller: Caller): Promise<void> {
    let template = await this.#find(E2B_TEMPLATE, caller)
    if (template?.state === 'failed') {
      await this.#templates.delete(E2B_TEMPLATE, caller)
      template = undefined
    }
    template ??= await this.#templates.build(
      {
        name: E2B_TEMPLATE,
        description: 'For clients of E2B: with the user "user" and sudo',
        packages: [],
        pip: [],
        ...(await this.#findBase(caller)),
        commands: [...COMMANDS, MAKE_FONT_LIST],
        preload: ['matplotlib.pyplot'],
      },
      caller,
    )
    template = await this.#whenBuilt(template, caller)
    if (template.state === 'ready') return
    throw new ApiError(
      500,
      `The template "${E2B_TEMPLATE}" cannot be built: ${template.error ?? template.state}`,
    )
  }

  /** The built-in template with Node.js, unless this server has none. */
  async #findBase(caller: Caller): Promise<{ from?: string }> {
    const found = await this.#find(PREFERRED_BASE, caller)
    if (found?.source !== 'built_in') return {}
    return (await this.#whenBuilt(found, caller)).state === 'ready' ? { from: PREFERRED_BASE } : {}
  }

  async #whenBuilt(template: TemplateAnswer, caller: Caller): Promise<TemplateAnswer> {
    let latest = template
    for (let waitedMs = 0; latest.state === 'building' && waitedMs < BUILD_MAX_MS; waitedMs += POLL_MS) {
      await sleep(POLL_MS)
      latest = await this.#templates.get(template.name, caller)
    }
    return latest
  }

  async #find(name: string, caller: Caller): Promise<TemplateAnswer | undefined> {
    try {
      return await this.#templates.get(name, caller)
    } catch (error) {
      if (hasErrorCode(error, 'template_not_found')) return undefined
      throw error
    }
  }
}
