/**
 * Tells at the end which tests passed only when tried again. The machines are shared: a test that is right can fail on a host that stood
 * still, but one that is in this list again and again is wrong, or what it tests is.
 */
export default class SecondTries {
  /** @param {readonly import('vitest/node').TestModule[]} modules */
  onTestRunEnd(modules) {
    const tests = modules.flatMap((each) => [...each.children.allTests()])
    const flaky = tests.filter((test) => test.diagnostic()?.flaky)
    if (flaky.length === 0) return
    console.log(`\nPassed at the second try (${flaky.length}):`)
    for (const test of flaky) {
      console.log(`  ${test.module.relativeModuleId} > ${test.fullName}`)
      const [error] = test.result().errors ?? []
      if (error) console.log(`    ${error.message.split('\n').slice(0, 6).join('\n    ')}`)
    }
  }
}
