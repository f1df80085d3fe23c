import type { IncomingMessage, ServerResponse } from 'node:http'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The parts of the path that the route names. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
}

type Handler<More> = (exchange: Exchange & More) => Promise<void> | void

interface Route<More> {
  readonly method: Method
  readonly parts: readonly string[]
  readonly handle: Handler<More>
}

/** Finds the handler of a request by method and path. `:name` stands for one part of the path. */
export class Router<More = object> {
  readonly #routes: Route<More>[] = []

  on(method: Method, path: string, handle: Handler<More>): void {
    this.#routes.push({ method, parts: path.split('/'), handle })
  }

  /** `isKnownPath` without a handler: another method has this path. */
  find(
    method: string | undefined,
    path: string,
  ): { handle?: Handler<More>; params: Record<string, string>; isKnownPath: boolean } {
    const given = path.split('/')
    let isKnownPath = false
    for (const route of this.#routes) {
      const params = match(route.parts, given)
      if (params === undefined) continue
      isKnownPath = true
      if (route.method === method) return { handle: route.handle, params, isKnownPath }
    }
    return { params: {}, isKnownPath }
  }
}

function match(parts: readonly string[], given: readonly string[]): Record<string, string> | undefined {
  if (parts.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of parts.entries()) {
    const value = given[index] ?? ''
    if (part.startsWith(':')) {
      if (value === '') return undefined
      params[part.slice(1)] = decode(value)
    } else if (part !== value) return undefined
  }
  return params
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
