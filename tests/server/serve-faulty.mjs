// The server of serve.mjs, whose engine gets stuck or fails at chosen moments: those between two steps, too short to
// be hit from outside.
import { LinuxEngine } from '@dormouse/engine-linux'

for (const { method, when, does } of JSON.parse(process.env.DORMOUSE_TEST_FAULTS ?? '[]')) {
  const real = LinuxEngine.prototype[method]
  const strike = () => {
    console.log(`fault ${method} ${when}`)
    if (does === 'fail') throw new Error(`${method} was made to fail`)
    return new Promise(() => {})
  }
  if (when === 'amid') {
    // A fork gets stuck when its first child is there.
    LinuxEngine.prototype[method] = function (burrow, { limitRestore, ...options }) {
      const passed = new Set([burrow.sandboxId, options.sandboxIds[0]])
      const limited = (id, restore) => (passed.has(id) ? limitRestore(id, restore) : strike())
      return real.call(this, burrow, { ...options, limitRestore: limited })
    }
    continue
  }
  LinuxEngine.prototype[method] = async function (...args) {
    if (when === 'before') await strike()
    const result = await real.apply(this, args)
    await strike()
    return result
  }
}
await import('./serve.mjs')
