"""Which servers may be asked, and that a key appears nowhere."""

import pytest

from gpu_backend.serve_check.endpoint_policy import EndpointError, endpoint_of, named_hosts

NONE: dict[str, str] = {}


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1/completions"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/completions"),
        ("http://127.8.9.1/v1", "http://127.8.9.1:80/v1/completions"),
        ("http://[::1]:9/v1/chat/completions", "http://[::1]:9/v1/chat/completions"),
        ("https://LOCALHOST/api/v1/completions/", "https://localhost:443/api/v1/completions"),
    ],
)
def test_loopback_is_allowed(url: str, asked: str) -> None:
    assert endpoint_of(url, environment=NONE).url == asked


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com", "example.com:80 is not allowed; allowed: this machine"),
        ("http://169.254.169.254/latest", "169.254.169.254:80 is not allowed"),
        ("http://localhost.evil.com", "localhost.evil.com:80 is not allowed"),
        ("http://127.0.0.1.nip.io", "is not allowed"),
        ("http://2130706433", "is not allowed"),
        ("http://0.0.0.0:80", "is not allowed"),
        ("http://localhost@evil.com", "no user or password"),
        ("http://user:secret@localhost", "no user or password"),
        ("http://localhost?key=secret", "no ? or #"),
        ("ftp://localhost", "an endpoint looks like http://localhost:8000"),
        ("localhost:8000", "an endpoint looks like"),
        ("http://localhost:99999", "not a URL"),
        ("", "an endpoint looks like"),
    ],
)
def test_all_else_is_refused_without_repeating_a_secret(url: str, words: str) -> None:
    with pytest.raises(EndpointError) as refused:
        endpoint_of(url, environment=NONE)
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_operator_names_other_hosts() -> None:
    named = {"BATCHSCOPE_ENDPOINTS": "gpu-box, Other:9000 ,"}
    assert named_hosts(named) == ("gpu-box", "other:9000")
    assert endpoint_of("http://gpu-box:123", environment=named).base == "http://gpu-box:123/v1"
    assert endpoint_of("http://other:9000", environment=named).base == "http://other:9000/v1"
    with pytest.raises(EndpointError, match=r"other:9001 is not allowed; allowed: .* gpu-box, oth"):
        endpoint_of("http://other:9001", environment=named)


def test_a_page_offers_this_machine_only_if_it_is_named() -> None:
    with pytest.raises(EndpointError, match="allowed: none"):
        endpoint_of("http://localhost:8000", environment=NONE, loopback=False)
    named = {"BATCHSCOPE_ENDPOINTS": "localhost:8000"}
    endpoint_of("http://localhost:8000", environment=named, loopback=False)
    with pytest.raises(EndpointError, match="localhost:22 is not allowed"):
        endpoint_of("http://localhost:22", environment=named, loopback=False)


def test_a_key_comes_from_the_environment_and_shows_nowhere() -> None:
    endpoint = endpoint_of("http://localhost:1", environment={"BATCHSCOPE_ENDPOINT_KEY": " sk-7 "})
    assert endpoint.key == "sk-7"
    assert "sk-7" not in f"{endpoint!r} {endpoint} {endpoint.url}"
    assert endpoint.without_key("bad key sk-7!") == "bad key ***!"
    with pytest.raises(EndpointError) as refused:
        endpoint_of("http://localhost:1", environment={"BATCHSCOPE_ENDPOINT_KEY": "sk\n7"})
    assert "7" not in str(refused.value)
