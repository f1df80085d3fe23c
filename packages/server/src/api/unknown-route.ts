import { DormouseError } from '@dormouse/contracts'
import type { App } from './route.ts'

/** Distinguishes an unknown path from a known one with other methods. */
export function answerUnknownRoutes(app: App): void {
  const methodsByPattern = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const known = methodsByPattern.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() }
    for (const name of [method].flat()) known.methods.add(name)
    methodsByPattern.set(url, known)
  })
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] ?? ''
    const methods = new Set<string>()
    for (const known of methodsByPattern.values()) {
      if (known.pattern.test(path)) for (const method of known.methods) methods.add(method)
    }
    if (methods.size === 0) {
      throw new DormouseError('not_found', 'there is no such route', {
        hint: 'See /openapi.json for all routes.',
      })
    }
    reply.header('allow', [...methods].sort().join(', '))
    throw new DormouseError('method_not_allowed', `this route does not support ${request.method}`)
  })
}

function patternOf(url: string): RegExp {
  const parts = url
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
  return new RegExp(`^${parts.join('/')}$`)
}
