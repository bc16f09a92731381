// A client for rlrun's external envs, for browsers and Node 18 or newer.
class Client {
  constructor(address, token) {
    this.address = address;
    this.headers = {"Content-Type": "application/json"};
    if (token) this.headers.Authorization = `Bearer ${token}`;
    this.starts = 0;
    this.next = {};
  }
  async ask(message) {
    for (;;) {
      try {
        const body = JSON.stringify(message);
        const request = {method: "POST", headers: this.headers, body};
        const response = await fetch(this.address, request);
        const answer = await response.json();
        if (!answer.error) return answer;
        if (answer.error !== "busy" && answer.error !== "closing")
          throw new Error(`${answer.error}: ${answer.message}`);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error; // the network failed
      }
      await new Promise((wake) => setTimeout(wake, 500)); // seq makes repeating safe
    }
  }
  async hello() {
    this.client = (await this.ask({verb: "hello", protocol: "1.0"})).client;
  }
  async startEpisode() {
    const {client, starts: seq} = this;
    const {episode} = await this.ask({verb: "start_episode", client, seq});
    this.starts += 1;
    this.next[episode] = 0;
    return episode;
  }
  async getAction(episode, observation, reward = 0) {
    const seq = this.next[episode];
    const message = {verb: "get_action", episode, seq, observation, reward};
    const {action} = await this.ask(message);
    this.next[episode] += 1;
    return action;
  }
  async endEpisode(episode, observation, reward = 0, truncated = false) {
    const verb = "end_episode";
    await this.ask({verb, episode, seq: 0, observation, reward, truncated});
    delete this.next[episode];
  }
}
